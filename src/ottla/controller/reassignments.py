"""Moving replicas: begun by one record, completed by the ISR, cancelled by another record.

A reassignment adds the new replicas first. When all of them are in sync, the old ones go: whoever
changes the ISR completes it (see `partition_change.Target.completed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.controller.assignments import check_manual
from ottla.controller.elections import Election
from ottla.controller.eligible import min_isr_by_topic
from ottla.controller.partition_change import Target, change_partition, without
from ottla.controller.unclean import ElectionOf
from ottla.metadata.decision import Decision
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage
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
    """Each partition is reassigned, or its reassignment cancelled, or fails, by itself."""
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


def list_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """What is being moved: everything, or of the partitions asked for."""
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
    """`wanted` in front, since the first replica is the preferred leader, then those that go.
    Everything that was not there before the first reassignment under way counts as added."""
    removing = tuple(sorted(without(partition.replicas, wanted)))
    replicas = wanted + removing
    original = without(partition.replicas, partition.adding_replicas)
    adding = tuple(sorted(without(replicas, original)))
    return Target.of(partition)._replace(replicas=replicas, adding=adding, removing=removing)


def _cancelled(name: str, partition: PartitionImage, election: Election, min_isr: int) -> Target:
    """Back to the replicas before. It may need an unclean election, where all others were lost."""
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
        # Kafka would go on with less than what min.insync.replicas promised when it was written.
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
