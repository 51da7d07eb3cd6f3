"""ConsumerGroupCurrentMemberAssignment, record type 8."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int8, int32, string, uuid


class ConsumerGroupCurrentMemberAssignmentKey(Message, api_key=8, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable=True, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, api_key=8, versions=(0, 0), flexible=0):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)
