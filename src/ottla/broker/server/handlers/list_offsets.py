"""ListOffsets: find the earliest or latest offset, or the offset of a timestamp or of the largest
one."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._time_lookup import TimeLookup
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.broker.server.context import BrokerContext

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

LEADER_EPOCHS_FROM: Final = 4
NOT_AVAILABLE_FROM: Final = 5
ANY_REPLICA: Final = -2
"""As replica id: debugging tools may ask followers too."""

FIRST_VERSION: Final = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""Special timestamps that came after version 1 -> the version that introduced them."""

Found = tuple[int, int, int]
"""(timestamp, offset, leader epoch), as in the response."""


def handle(
    context: BrokerContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]:
    """Answer at once, unless records have to be searched."""
    answering = _answer(context, request)
    if any(
        wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP
        for topic in request.topics
        for wanted in topic.partitions
    ):
        return answering
    return _finished(answering)


async def _answer(context: BrokerContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    answers = []
    for topic in request.topics:
        seen: set[int] = set()
        answer = ListOffsetsTopicResponse(name=topic.name)
        if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            answer.partitions = [
                _refusal(wanted.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                for wanted in topic.partitions
            ]
            answers.append(answer)
            continue
        for wanted in topic.partitions:
            answer.partitions.append(
                _refusal(wanted.partition_index, ErrorCode.INVALID_REQUEST)
                if wanted.partition_index in seen
                else await _look_up(context, topic.name, wanted, request)
            )
            seen.add(wanted.partition_index)
        answers.append(answer)
    return ListOffsetsResponse(topics=answers)


async def _look_up(
    context: BrokerContext,
    topic: str,
    wanted: ListOffsetsPartition,
    request: ListOffsetsRequest,
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    if wanted.timestamp < 0 and (
        wanted.timestamp < EARLIEST_PENDING_UPLOAD
        or context.api_version < FIRST_VERSION.get(wanted.timestamp, 1)
    ):
        return _refusal(index, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = context.services.replicas.partition(topic, index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        if request.replica_id != ANY_REPLICA:
            partition.check_leading()
        end = _end(partition, request)
        timestamp, offset, epoch = await _find(context, partition, wanted.timestamp, end)
    except KafkaError as error:
        code = context.services.replicas.fail_dir_if_needed(error).code
        if code == ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < NOT_AVAILABLE_FROM:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return _refusal(index, code)
    answer = ListOffsetsPartitionResponse(partition_index=index, timestamp=timestamp, offset=offset)
    if context.api_version >= LEADER_EPOCHS_FROM:
        answer.leader_epoch = epoch
    return answer


class _End(NamedTuple):
    """The end of what the client may see."""

    offset: int
    is_behind: bool
    """True just after an election, when more is committed than can be shown yet."""


def _end(partition: Partition, request: ListOffsetsRequest) -> _End:
    log = partition.usable_log()
    if request.replica_id >= 0:
        return _End(log.end_offset, is_behind=False)
    committed_only = request.isolation_level
    offset = partition.last_stable_offset if committed_only else partition.high_watermark
    return _End(offset, partition.is_catching_up)


async def _find(context: BrokerContext, partition: Partition, timestamp: int, end: _End) -> Found:
    log = partition.usable_log()
    if timestamp == LATEST:
        if end.is_behind:
            raise _not_available(partition)
        return -1, end.offset, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        # There is no tiered storage: the log start is the earliest offset anywhere.
        return -1, log.log_start_offset, log.epochs.epoch_of_offset(log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1
    services = context.services
    lookup = TimeLookup(services.opener, services.runtime.clock, partition)
    if timestamp == MAX_TIMESTAMP:
        found = await lookup.youngest()
    else:
        found = await lookup.first_from(timestamp)
    if found is None or found[1] >= end.offset:
        if end.is_behind:
            raise _not_available(partition)
        return -1, -1, -1
    return found


def _not_available(partition: Partition) -> KafkaError:
    return KafkaError(
        ErrorCode.OFFSET_NOT_AVAILABLE,
        f"{partition} has a new leader, whose followers have not shown themselves yet",
    )


def _refusal(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=int(code))


def _finished(answering: Coroutine[Any, Any, ListOffsetsResponse]) -> ListOffsetsResponse:
    """Return the result of a coroutine that never has to wait."""
    try:
        answering.send(None)
    except StopIteration as done:
        response: ListOffsetsResponse = done.value
        return response
    raise AssertionError("looked for records")


HANDLER = Handler(on_broker=handle)
