"""Produce: check the batches, append their bytes as they are, answer when `acks` is satisfied.

A batch is served in one call. Two things take longer and hold up the connection, so that the order
of its batches is kept: opening a batch, which is done in a thread, and the first batch of a
transaction to a partition, if its coordinator does not answer at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.transactions.transaction import Identity
from ottla.broker.replication import verifying
from ottla.broker.server.contract import CannotTell, Handler
from ottla.broker.server.handlers._leaders import WRONG_LEADER, addresses, placed
from ottla.broker.server.handlers._verification import PROTOCOL_2_FROM, Inquiry
from ottla.broker.server.purgatory import DelayedWrite, committed, settled
from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode, KafkaError, without_traceback
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.records.errors import InvalidBatch, OpensTooLarge
from ottla.records.header import (
    ATTRIBUTES_LOW_BYTE_POSITION,
    LOG_OVERHEAD,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
)
from ottla.records.header_fields import (
    ATTRIBUTES,
    BASE_SEQUENCE,
    BATCH_LENGTH,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
)
from ottla.records.rules import ProduceRules
from ottla.records.validation import (
    check_produced,
    must_open,
    open_produced,
    stamp_log_append_time,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.topic import HostedTopic
    from ottla.broker.server.batch_opener import OpeningQueue
    from ottla.broker.server.context import BrokerContext
    from ottla.broker.server.figures.topics import TopicFigures
    from ottla.broker.storage.producers.verification import Verification

_WRITE: Final = Operation.WRITE
_TOPIC: Final = ResourceType.TOPIC
ACKS_ALL: Final = -1
TOPIC_IDS_FROM: Final = 13
LEADERS_TOLD_FROM: Final = 10
INTERNAL_WRITER: Final = "__admin_client"
"""The client id that may produce to internal topics, as in Kafka."""


def handle(
    context: BrokerContext, request: ProduceRequest
) -> ProduceResponse | DelayedWrite | Coroutine[Any, Any, Any] | None:
    production = Production(context, request)
    if production.check():
        return production.append()
    production.keep_batches()
    return production.append_later()


class _Item:
    """A partition of the request: its records, the state of its checks, and its answer."""

    __slots__ = (
        "answer",
        "error",
        "header",
        "hosted",
        "must_open",
        "partition",
        "records",
        "rules",
        "verification",
    )

    def __init__(self, answer: PartitionProduceResponse) -> None:
        self.answer = answer
        self.error: KafkaError | None = None
        self.must_open = False
        self.hosted: HostedTopic | None = None
        """The topic, if it is here and the client may write to it."""
        self.records: Buffer = b""
        self.verification: Verification | None = None
        self.partition: Partition
        self.rules: ProduceRules
        self.header: BatchHeader


class Production:
    """A produce request: all its batches are checked, then all are appended."""

    __slots__ = (
        "_context",
        "_inquiry",
        "_items",
        "_misled",
        "_now_ms",
        "_refused_transactional",
        "_request",
        "_response",
        "_transactional",
        "_unsettled",
    )

    def __init__(self, context: BrokerContext, request: ProduceRequest) -> None:
        self._context = context
        self._request = request
        self._now_ms = context.services.runtime.clock.wall_ms()
        self._response = ProduceResponse()
        self._items: list[_Item] = []
        self._transactional: list[_Item] | None = None
        self._refused_transactional = False
        """True if transactional records were sent to a topic that the client may not write to."""
        self._inquiry: Inquiry | None = None
        self._unsettled: dict[Partition, tuple[int, PartitionProduceResponse]] | None = None
        self._misled = False
        """True if something was sent to a broker that is not its leader."""

    # --- checking -------------------------------------------------------------------------------

    def check(self) -> bool:
        """Check the header and checksum of every batch. Returns False if the request has to wait,
        because a batch must be opened or a coordinator has not answered yet."""
        at_once = True
        context = self._context
        authorizer = context.services.authorizer
        for topic in self._request.topic_data:
            hosted = self._host(topic)
            # Not by `may`: each call costs every produce.
            if authorizer is None:
                may_write = True
            elif hosted is not None:
                may_write = authorizer.allows(context, _WRITE, _TOPIC, hosted.name)
            else:
                may_write = self._may_write_elsewhere(topic)
            answers = []
            for wanted in topic.partition_data:
                answer = PartitionProduceResponse(index=wanted.index)
                answers.append(answer)
                item = _Item(answer)
                self._items.append(item)
                try:
                    if not may_write:
                        raise self._refusal(wanted)
                    item.hosted = hosted
                    self._check(item, hosted, wanted)
                    if must_open(item.header, item.records, item.rules, self._now_ms):
                        item.must_open = True
                        at_once = False
                except KafkaError as error:
                    item.error = without_traceback(error)
                    if isinstance(wanted.records, memoryview):
                        item.records = wanted.records
            if self._context.api_version >= TOPIC_IDS_FROM:
                group = TopicProduceResponse(topic_id=topic.topic_id, partition_responses=answers)
            else:
                group = TopicProduceResponse(name=topic.name, partition_responses=answers)
            self._response.responses.append(group)
        if self._transactional is not None or self._refused_transactional:
            if not self._may_use_transactional_id():
                refusal = KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                for item in self._items:
                    item.error = refusal
            elif self._transactional is not None and not self._verify(self._transactional):
                at_once = False
        return at_once

    def _may_write_elsewhere(self, topic: TopicProduceData) -> bool:
        """True if the client may write to a topic that this broker does not host."""
        if self._context.api_version < TOPIC_IDS_FROM:
            name = topic.name
        else:
            known = self._context.services.metadata.image.topics_by_id.get(topic.topic_id)
            if known is None:
                return True  # there is no such topic, as the client is told
            name = known.name
        return self._context.may(_WRITE, _TOPIC, name)

    def _may_use_transactional_id(self) -> bool:
        transactional_id = self._request.transactional_id
        return transactional_id is not None and self._context.may(
            _WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        )

    def _refusal(self, wanted: PartitionProduceData) -> KafkaError:
        records = wanted.records
        if isinstance(records, memoryview) and len(records) > ATTRIBUTES_LOW_BYTE_POSITION:
            attributes = records[ATTRIBUTES_LOW_BYTE_POSITION]
            self._refused_transactional |= bool(attributes & TRANSACTIONAL_BIT)
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _host(self, topic: TopicProduceData) -> HostedTopic | None:
        replicas = self._context.services.replicas
        if self._context.api_version >= TOPIC_IDS_FROM:
            return replicas.topics_by_id.get(topic.topic_id)
        return replicas.topics.get(topic.name)

    def _check(self, item: _Item, hosted: HostedTopic | None, wanted: PartitionProduceData) -> None:
        if hosted is None or (partition := hosted.partitions.get(wanted.index)) is None:
            raise self._unknown(hosted, wanted.index)
        if hosted.is_internal and self._context.client_id != INTERNAL_WRITER:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{hosted.name} is internal: only coordinators write to it",
            )
        if not partition.is_leader:
            raise partition.not_leader()
        acks = self._request.acks
        if acks == ACKS_ALL:
            if partition.lacks_replicas:
                raise KafkaError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{partition} has {len(partition.isr)} in-sync replicas of the "
                    f"{partition.min_insync_replicas} that min.insync.replicas asks for",
                )
        elif acks not in (0, 1):
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; 0, 1 or -1 (all)")
        records = wanted.records
        if not isinstance(records, memoryview):
            raise InvalidBatch(ErrorCode.INVALID_RECORD, "the request carries no batch")
        header = check_produced(records, hosted.rules, self._context.api_version)
        if header[ATTRIBUTES] & TRANSACTIONAL_BIT:
            if self._transactional is None:
                self._transactional = []
            self._transactional.append(item)
        size = LOG_OVERHEAD + header[BATCH_LENGTH]
        item.records = records if len(records) == size else records[:size]
        item.header = header
        item.partition = partition
        item.rules = hosted.rules

    def _unknown(self, hosted: HostedTopic | None, index: int) -> KafkaError:
        if hosted is None and self._context.api_version >= TOPIC_IDS_FROM:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self._context.services.replicas.not_here(
            None if hosted is None else hosted.id, index
        )

    # --- verifying ------------------------------------------------------------------------------

    def _verify(self, items: Sequence[_Item]) -> bool:
        """Ask the coordinator about partitions where the transaction is not open yet. Returns True
        if all answers are known."""
        producers = {(item.header.producer_id, item.header.producer_epoch) for item in items}
        if len(producers) > 1:
            for item in self._items:
                item.error = KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return True
        if not self._must_verify:
            return True
        self._inquiry = None
        for item in items:
            if item.error is None:
                try:
                    self._begin_verification(item)
                except KafkaError as error:
                    item.error = without_traceback(error)
        if self._inquiry is None:
            return True
        if not self._inquiry.ask():
            return False
        self._take_verdicts()
        return True

    @property
    def _must_verify(self) -> bool:
        return (
            self._context.api_version >= PROTOCOL_2_FROM
            or self._context.services.config["transaction.partition.verification.enable"]
        )

    def _begin_verification(self, item: _Item) -> None:
        version = self._context.api_version
        partition, header = item.partition, item.header
        item.verification = verifying.begin_verification(
            partition,
            *(header[PRODUCER_ID], header[PRODUCER_EPOCH], header[BASE_SEQUENCE], self._now_ms),
            epochs_grow=version >= PROTOCOL_2_FROM,
        )
        if item.verification is None:
            return
        if self._inquiry is None:
            transactional_id = self._request.transactional_id
            assert transactional_id is not None
            client = Identity(header[PRODUCER_ID], header[PRODUCER_EPOCH])
            transactions = self._context.services.coordinators.transactions
            self._inquiry = Inquiry(transactions, version, transactional_id, client)
        self._inquiry.add((partition.topic, partition.index))

    def _take_verdicts(self) -> None:
        assert self._inquiry is not None
        for item in self._transactional or ():
            if item.verification is not None and item.error is None:
                partition = item.partition
                item.error = self._inquiry.error_of((partition.topic, partition.index))

    # --- waiting --------------------------------------------------------------------------------

    def keep_batches(self) -> None:
        """Copy the batches, because the receive buffer is reused before a coroutine takes its first
        step."""
        for item in self._items:
            if item.error is None:
                item.records = memoryview(bytearray(item.records))

    async def append_later(self) -> ProduceResponse | DelayedWrite | None:
        """Open batches, and recompress them if necessary, in threads; wait for coordinators; then
        append. Only this connection waits, so that the order of its batches is kept."""
        unopened = [item for item in self._items if item.error is None and item.must_open]
        if unopened:
            await self._open_all(unopened)
        if self._inquiry is not None:
            await self._await_verdicts()
        return self.append()

    async def _await_verdicts(self) -> None:
        """Wait for the coordinator's answers. Each attempt asks anew, because a marker that arrives
        after the question voids the answer."""
        clock = self._context.services.runtime.clock
        config = self._context.services.config
        give_up = clock.now() + config["add.partitions.to.txn.retry.backoff.max.ms"] / 1000
        while self._inquiry is not None:
            await self._inquiry.answered()
            self._inquiry.void(self._void_places())
            if not self._inquiry.is_worth_another or clock.now() >= give_up:
                self._take_verdicts()
                return
            if self._inquiry.must_wait:
                await asyncio.sleep(config["add.partitions.to.txn.retry.backoff.ms"] / 1000)
            if self._verify(self._transactional or ()):
                return

    def _void_places(self) -> list[tuple[str, int]]:
        return [
            (item.partition.topic, item.partition.index)
            for item in self._transactional or ()
            if item.verification is not None
            and item.error is None
            and verifying.is_void(
                item.partition,
                item.verification,
                item.header.producer_id,
                item.header.producer_epoch,
            )
        ]

    async def _open_all(self, items: Sequence[_Item]) -> None:
        """Try all batches with the small limit in one thread; then open those that exceed it one by
        one."""
        opener = self._context.services.opener
        await self._open_in(opener.small, items)
        for item in items:
            if isinstance(item.error, OpensTooLarge):
                item.error = None
                await self._open_in(opener.large, (item,))

    async def _open_in(self, queue: OpeningQueue, items: Sequence[_Item]) -> None:
        size = sum(len(item.records) for item in items)
        try:
            await queue.run(size, partial(self._open, items))
        except KafkaError as error:
            for item in items:
                item.error = without_traceback(error)

    def _open(self, items: Sequence[_Item], bytes_max: int) -> None:
        for item in items:
            try:
                item.records = open_produced(
                    item.records, item.header, item.rules, self._now_ms, bytes_max
                )
                item.header = read_header(item.records)
            except KafkaError as error:
                item.error = without_traceback(error)

    # --- appending ------------------------------------------------------------------------------

    def append(self) -> ProduceResponse | DelayedWrite | None:
        for item in self._items:
            if item.error is None:
                try:
                    self._append(item)
                except KafkaError as error:
                    item.error = without_traceback(error)
            if item.error is not None:
                _refuse(item.answer, self._context.services.replicas.fail_dir_if_needed(item.error))
                self._misled = self._misled or item.answer.error_code in WRONG_LEADER
        if self._context.services.topic_figures is not None:
            self._count(self._context.services.topic_figures)
        if self._request.acks == 0:
            self._check_accepted()
            return None
        if self._unsettled is None:
            return self._answer_with_leaders() if self._misled else self._response
        return DelayedWrite(
            self._context.services.runtime,
            {partition: needed for partition, (needed, _) in self._unsettled.items()},
            committed if self._request.acks == ACKS_ALL else settled,
            self._request.timeout_ms,
            self._finish,
            holds_connection=False,
        )

    def _append(self, item: _Item) -> None:
        records, header, answer = item.records, item.header, item.answer
        if item.rules.log_append_time:
            if not header.is_log_append_time:
                records = stamp_log_append_time(records, self._now_ms)
                header = read_header(records)
            answer.log_append_time_ms = header.max_timestamp
        partition = item.partition
        if header[PRODUCER_ID] < 0:
            appended = partition.append(records, header, self._now_ms)
        else:
            appended, known_since = partition.append_produced(
                records,
                header,
                self._now_ms,
                item.verification,
                must_verify=self._transactional is not None and self._must_verify,
            )
            if known_since is not None and item.rules.log_append_time:
                answer.log_append_time_ms = known_since
        answer.base_offset = appended.base_offset
        answer.log_start_offset = appended.log_start_offset
        acks_all = self._request.acks == ACKS_ALL
        reached = partition.high_watermark if acks_all else partition.settled_offset
        if reached <= appended.last_offset:
            if self._unsettled is None:
                self._unsettled = {}
            self._unsettled[partition] = (appended.last_offset + 1, answer)

    def _count(self, figures: TopicFigures) -> None:
        for item in self._items:
            if item.hosted is None:
                continue
            if item.error is None:
                count = item.header[RECORD_COUNT]
                figures.appended(item.hosted.name, len(item.records), count)
            else:
                figures.refused(item.hosted.name, len(item.records), item.error.code)

    # --- the answer -----------------------------------------------------------------------------

    def _finish(self, missed: dict[Partition, ErrorCode]) -> ProduceResponse:
        assert self._unsettled is not None
        for partition, error in missed.items():
            answer = self._unsettled[partition][1]
            answer.error_code = int(error)
            answer.base_offset = -1
            self._misled = self._misled or error in WRONG_LEADER
        return self._answer_with_leaders() if self._misled else self._response

    def _answer_with_leaders(self) -> ProduceResponse:
        """Return the answer, with the leaders of the partitions that were sent to the wrong
        broker."""
        leaders: list[int] = []
        for item, topic in zip(self._items, self._topics(), strict=True):
            answer = item.answer
            if answer.error_code in WRONG_LEADER:
                partition = placed(self._context, topic, answer.index)
                if partition is not None and self._context.api_version >= LEADERS_TOLD_FROM:
                    answer.current_leader = LeaderIdAndEpoch(
                        leader_id=partition.leader, leader_epoch=partition.leader_epoch
                    )
                    leaders.append(partition.leader)
        if leaders:
            self._response.node_endpoints = [
                NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port, rack=rack)
                for leader_id, endpoint, rack in addresses(self._context, leaders)
            ]
        return self._response

    def _topics(self) -> Iterator[str | bytes]:
        """Yield the topic of each item."""
        by_id = self._context.api_version >= TOPIC_IDS_FROM
        for topic in self._request.topic_data:
            for _ in topic.partition_data:
                yield topic.topic_id if by_id else topic.name

    def _check_accepted(self) -> None:
        """Raise on an error: with acks=0 there is no answer that could carry it."""
        for item in self._items:
            if item.answer.error_code:
                name = ErrorCode.of(item.answer.error_code).name
                raise CannotTell(f"acks=0 and {name}: {item.answer.error_message}")


def _refuse(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code = int(error.code)
    answer.error_message = error.message
    answer.base_offset = -1
    if isinstance(error, InvalidBatch):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why)
            for at, why in error.record_errors
        ]


HANDLER = Handler(on_broker=handle)
