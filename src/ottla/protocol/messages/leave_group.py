"""LeaveGroup, API 13."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int16, int32, string


class MemberIdentity(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable=True, default=None)
    reason: str | None = string("5+", nullable=True, default=None, ignorable=True)


class LeaveGroupRequest(Message, api_key=13, versions=(0, 5), flexible=4):
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable=True)
    error_code: int = int16()


class LeaveGroupResponse(Message, api_key=13, versions=(0, 5), flexible=4):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
