"""The records of a consumer group, in Kafka's format."""

from __future__ import annotations

from ottla.broker.coordinator.consumer.assignors import Partitions
from ottla.broker.coordinator.consumer.member import Held, Member, MemberState
from ottla.protocol.coordinator_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.protocol.coordinator_records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataValue,
)
from ottla.protocol.coordinator_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)


def member_metadata(member: Member) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )


def target_assignment(target: Partitions) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(target.items())
        ]
    )


def target_from(value: ConsumerGroupTargetAssignmentMemberValue) -> dict[bytes, frozenset[int]]:
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}


def current_assignment(member: Member) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_topics(member.assigned),
        partitions_pending_revocation=_topics(member.revoking),
    )


def _topics(held: Held) -> list[TopicPartitions]:
    topics = []
    for topic_id, epochs in sorted(held.items()):
        indexes = sorted(epochs)
        topics.append(
            TopicPartitions(
                topic_id=topic_id,
                partitions=indexes,
                assignment_epochs=[epochs[index] for index in indexes],
            )
        )
    return topics


def held_from(topics: list[TopicPartitions], member_epoch: int) -> dict[bytes, dict[int, int]]:
    """Return partitions with their epochs. Records of Kafka before 4.3 have no epochs; the member's
    own is then the safe assumption."""
    return {
        topic.topic_id: dict(
            zip(
                topic.partitions,
                topic.assignment_epochs or [member_epoch] * len(topic.partitions),
                strict=True,
            )
        )
        for topic in topics
    }


def state_from(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN


def current_key(group_id: str, member_id: str) -> ConsumerGroupCurrentMemberAssignmentKey:
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
