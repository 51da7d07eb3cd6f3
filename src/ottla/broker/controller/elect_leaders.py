"""Elections that are requested or due: preferred leaders, and unclean ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.broker.controller.broker_states import lead_leaderless
from ottla.broker.controller.elections import Election
from ottla.broker.controller.eligible import MinIsrOf, min_isr_by_topic
from ottla.broker.controller.partition_change import change_partition
from ottla.broker.controller.unclean import ElectionOf
from ottla.broker.metadata.changes import NO_LEADER_CHANGE
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.protocol.schema import Message

ELECTIONS_AT_ONCE_MAX: Final = 1_000
"""The most elections of one periodic decision; the rest follows in the next."""

_TYPES: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest
) -> Decision[ElectLeadersResponse]:
    """Elect leaders for all partitions (then only those that changed or failed are reported), or
    for the named ones."""
    election = _TYPES.get(request.election_type)
    if election is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
        )
    min_isr_of = min_isr_by_topic(image)
    records: list[Message] = []
    results: list[ReplicaElectionResult] = []
    for name, partitions in _wanted(image, request, election):
        told = []
        for index in partitions:
            error = _elect(image, name, index, election, min_isr_of, records)
            told.append(_result(index, error))
        if told or request.topic_partitions is not None:
            results.append(ReplicaElectionResult(topic=name, partition_result=told))
    return Decision(records, ElectLeadersResponse(replica_election_results=results))


def balance_leaders(image: MetadataImage) -> Decision[bool]:
    """Let preferred leaders lead again if they can; True if there may be more of them."""
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
    """Elect leaders for partitions without one; True if there may be more of them."""
    records = lead_leaderless(image, image.brokers, election_of, ELECTIONS_AT_ONCE_MAX)
    return Decision(records, len(records) == ELECTIONS_AT_ONCE_MAX)


def _wanted(
    image: MetadataImage, request: ElectLeadersRequest, election: Election
) -> Iterator[tuple[str, list[int]]]:
    if request.topic_partitions is None:
        # Of tens of thousands of partitions nearly all need no election: skip these here.
        for topic in image.topics.values():
            partitions = topic.partitions.values()
            yield topic.name, [p.index for p in partitions if not _is_settled(p, election)]
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
    if _is_settled(partition, election):
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    record = change_partition(
        topic.id, partition, image.brokers, election=election, min_isr=min_isr_of(name)
    )
    if record is None or record.leader == NO_LEADER_CHANGE:
        return KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if election is Election.PREFERRED
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
    records.append(record)
    return None


def _is_settled(partition: PartitionImage, election: Election) -> bool:
    if election is Election.PREFERRED:
        return partition.replicas[0] == partition.leader
    return partition.leader >= 0


def _result(index: int, error: KafkaError | None) -> PartitionResult:
    if error is None:
        return PartitionResult(partition_id=index, error_message=None)
    return PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
