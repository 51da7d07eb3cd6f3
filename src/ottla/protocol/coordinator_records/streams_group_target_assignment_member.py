"""StreamsGroupTargetAssignmentMember, record type 21."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int32, string


class StreamsGroupTargetAssignmentMemberKey(Message, api_key=21, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class TaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class StreamsGroupTargetAssignmentMemberValue(Message, api_key=21, versions=(0, 0), flexible=0):
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)
