"""SyncGroup, API 14."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int16, int32, octets, string


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: bytes = octets()


class SyncGroupRequest(Message, api_key=14, versions=(0, 5), flexible=4):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable=True, default=None)
    protocol_type: str | None = string("5+", nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable=True, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Message, api_key=14, versions=(0, 5), flexible=4):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable=True, default=None, ignorable=True)
    assignment: bytes = octets()
