"""Heartbeat, API 12."""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, int32, string


class HeartbeatRequest(Message, api_key=12, versions=(0, 4), flexible=4):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable=True, default=None)


class HeartbeatResponse(Message, api_key=12, versions=(0, 4), flexible=4):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
