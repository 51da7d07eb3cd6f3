"""Elections that somebody asks for, or that are due: preferred leaders, and unclean ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.controller.broker_states import lead_leaderless
from ottla.controller.elections import Election
from ottla.controller.eligible import MinIsrOf, min_isr_by_topic
from ottla.controller.partition_change import change_partition
from ottla.controller.unclean import ElectionOf
from ottla.metadata.changes import NO_LEADER_CHANGE
from ottla.metadata.decision import Decision
from ottla.metadata.image import NO_LEADER, MetadataImage, TopicImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.protocol.schema import Message

ELECTIONS_AT_ONCE_MAX: Final = 1_000
"""Elections of one periodic decision; what remains follows in the next."""

_TYPES: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest
) -> Decision[ElectLeadersResponse]:
    """For all partitions (then only those that changed or failed are told), or those named."""
    election = _TYPES.get(request.election_type)
    if election is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
        )
    min_isr_of = min_isr_by_topic(image)
    records: list[Message] = []
    results: list[ReplicaElectionResult] = []
    for name, partitions in _wanted(image, request):
        told = []
        for index in partitions:
            error = _elect(image, name, index, election, min_isr_of, records)
            needless = error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED
            if request.topic_partitions is not None or not needless:
                told.append(_result(index, error))
        if told or request.topic_partitions is not None:
            results.append(ReplicaElectionResult(topic=name, partition_result=told))
    return Decision(records, ElectLeadersResponse(replica_election_results=results))


def balance_leaders(image: MetadataImage) -> Decision[bool]:
    """Preferred leaders lead again where they can; True if there may be more of them."""
    min_isr_of = min_isr_by_topic(image)
    records: list[Message] = []
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            if partition.leader in (NO_LEADER, partition.replicas[0]):
                continue
            record = change_partition(
                topic.id,
                partition,
                image.brokers,
                election=Election.PREFERRED,
                min_isr=min_isr_of(topic.name),
            )
            if record is not None:
                records.append(record)
                if len(records) == ELECTIONS_AT_ONCE_MAX:
                    return Decision(records, True)
    return Decision(records, False)


def elect_leaderless(image: MetadataImage, election_of: ElectionOf) -> Decision[bool]:
    """Partitions without a leader get one if they can; True if there may be more of them."""
    records = lead_leaderless(image, image.brokers, election_of, ELECTIONS_AT_ONCE_MAX)
    return Decision(records, len(records) == ELECTIONS_AT_ONCE_MAX)


def _wanted(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[tuple[str, list[int]]]:
    if request.topic_partitions is None:
        for topic in image.topics.values():
            yield topic.name, list(topic.partitions)
        return
    for wanted in request.topic_partitions:
        yield wanted.topic, wanted.partitions


def _elect(
    image: MetadataImage,
    name: str,
    index: int,
    election: Election,
    min_isr_of: MinIsrOf,
    records: list[Message],
) -> KafkaError | None:
    topic: TopicImage | None = image.topics.get(name)
    partition = None if topic is None else topic.partitions.get(index)
    if topic is None or partition is None:
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
        )
    preferred = election is Election.PREFERRED
    settled = partition.replicas[0] == partition.leader if preferred else partition.leader >= 0
    if settled:
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    record = change_partition(
        topic.id, partition, image.brokers, election=election, min_isr=min_isr_of(name)
    )
    if record is None or record.leader == NO_LEADER_CHANGE:
        return KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if preferred
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
    records.append(record)
    return None


def _result(index: int, error: KafkaError | None) -> PartitionResult:
    if error is None:
        return PartitionResult(partition_id=index, error_message=None)
    return PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
