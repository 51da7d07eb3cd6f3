"""Reassigns replicas: started by a record, completed by the ISR, cancelled by another record.

A reassignment adds the new replicas first. When all of them are in sync, the old ones are removed:
the change of the ISR completes it (see `partition_change.Target.completed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.broker.controller.assignments import check_manual
from ottla.broker.controller.elections import Election
from ottla.broker.controller.eligible import min_isr_by_topic
from ottla.broker.controller.partition_change import Target, change_partition, without
from ottla.broker.controller.unclean import ElectionOf
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from ottla.protocol.schema import Message


def alter_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, election_of: ElectionOf
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Reassign partitions, or cancel their reassignment. Each one succeeds or fails by itself."""
    records: list[Message] = []
    response = AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=request.allow_replication_factor_change,
    )
    for topic in request.topics:
        answer = ReassignableTopicResponse(name=topic.name)
        response.responses.append(answer)
        for wanted in topic.partitions:
            try:
                record = _alter(image, topic.name, wanted, request, election_of(topic.name))
            except KafkaError as error:
                answer.partitions.append(
                    ReassignablePartitionResponse(
                        partition_index=wanted.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                )
                continue
            if record is not None:
                records.append(record)
            answer.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=wanted.partition_index, error_message=None
                )
            )
    return Decision(records, response)


def relied_on(image: MetadataImage, request: AlterPartitionReassignmentsRequest) -> set[int]:
    """Return the brokers whose replicas remain in an ISR from which the request removes another
    replica at once, because no new replica has to catch up first."""
    relied: set[int] = set()
    for topic in request.topics:
        known = image.topics.get(topic.name)
        if known is None:
            continue
        for wanted in topic.partitions:
            partition = known.partitions.get(wanted.partition_index)
            if partition is not None:
                relied.update(_left_in_sync(partition, wanted.replicas))
    return relied


def _left_in_sync(partition: PartitionImage, wanted: Sequence[int] | None) -> tuple[int, ...]:
    """Return the ISR after the change to `wanted`; empty if the change removes no replica from the
    ISR at once."""
    if wanted is not None and not set(wanted).issubset(partition.isr):
        return ()
    gone = partition.adding_replicas if wanted is None else without(partition.isr, wanted)
    left = without(partition.isr, gone)
    return () if left == partition.isr else left


def list_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments in progress: all, or those of the requested partitions."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    for topic, partitions in _asked(image, request):
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=partition.index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for partition in partitions
            if partition.is_reassigned
        ]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return response


def _asked(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Iterator[tuple[TopicImage, Sequence[PartitionImage]]]:
    if request.topics is None:
        for topic in image.topics.values():
            yield topic, list(topic.partitions.values())
        return
    for asked in request.topics:
        found = image.topics.get(asked.name)
        if found is not None:
            indexes = [i for i in asked.partition_indexes if i in found.partitions]
            yield found, [found.partitions[i] for i in indexes]


def _alter(
    image: MetadataImage,
    name: str,
    wanted: ReassignablePartition,
    request: AlterPartitionReassignmentsRequest,
    election: Election,
) -> PartitionChangeRecord | None:
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
        )
    partition = topic.partitions.get(wanted.partition_index)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {name}:{wanted.partition_index}.",
        )
    min_isr = min_isr_by_topic(image)(name)
    if wanted.replicas is None:
        target = _cancelled(name, partition, election, min_isr)
        return change_partition(
            topic.id, partition, image.brokers, target, election=election, min_isr=min_isr
        )
    check_manual(image, wanted.replicas, None)
    if not request.allow_replication_factor_change:
        _check_factor(partition, wanted.replicas)
    target = _reassigned(partition, tuple(wanted.replicas))
    return change_partition(topic.id, partition, image.brokers, target, min_isr=min_isr)


def _reassigned(partition: PartitionImage, wanted: tuple[int, ...]) -> Target:
    """Return the target: first `wanted`, since the first replica is the preferred leader, then the
    replicas to remove. Everything that was not there before the first reassignment in progress
    counts as added."""
    removing = tuple(sorted(without(partition.replicas, wanted)))
    replicas = wanted + removing
    original = without(partition.replicas, partition.adding_replicas)
    adding = tuple(sorted(without(replicas, original)))
    return Target.of(partition)._replace(replicas=replicas, adding=adding, removing=removing)


def _cancelled(name: str, partition: PartitionImage, election: Election, min_isr: int) -> Target:
    """Return the target with the previous replicas. It may need an unclean election, if all others
    were lost."""
    if not partition.is_reassigned:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = without(partition.replicas, partition.adding_replicas)
    isr = without(partition.isr, partition.adding_replicas)
    if not isr and election is not Election.UNCLEAN:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {name}:{partition.index} because it "
            "would require an unclean leader election.",
        )
    complete = {*partition.isr, *partition.eligible_leader_replicas}
    kept = complete.intersection(replicas)
    needed = min(min_isr, len(replicas))
    if len(kept) < min(needed, len(complete)) and election is not Election.UNCLEAN:
        # Kafka would continue with fewer replicas than min.insync.replicas promised at the time of
        # the write.
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {name}:{partition.index} because of the "
            f"replicas to go back to only {sorted(kept)} have all acknowledged records, fewer "
            f"than min.insync.replicas={min_isr}: wait until more of them are in sync.",
        )
    return Target.of(partition)._replace(
        isr=isr or replicas[:1], replicas=replicas, adding=(), removing=()
    )


def _check_factor(partition: PartitionImage, wanted: Sequence[int]) -> None:
    factor = len(without(partition.replicas, partition.adding_replicas))
    if len(wanted) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor would change from {factor} to {len(wanted)}, which this "
            "request does not allow.",
        )
