"""ShareGroupCurrentMemberAssignment, record type 14."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int8, int32, string, uuid


class ShareGroupCurrentMemberAssignmentKey(Message, api_key=14, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupCurrentMemberAssignmentValue(Message, api_key=14, versions=(0, 0), flexible=0):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
