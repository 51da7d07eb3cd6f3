"""Builds the requests of a classic member, in the version that its coordinator supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.consumer.groups.commit_requests import MemberIdentity
from ottla.client.settings.consumer import ConsumerSettings
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode, KafkaError

STATIC_JOIN_FROM = 5
STATIC_SYNC_FROM = 3
STATIC_BEAT_FROM = 3
MANY_LEAVE_FROM = 3
REASON_CHARS_MAX = 255


def join_request(
    settings: ConsumerSettings,
    member_id: str,
    protocols: Mapping[str, bytes],
    reason: str,
    version: int,
) -> Any:
    from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

    request = JoinGroupRequest(
        group_id=settings.group_id or "",
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=member_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in protocols.items()
        ],
        reason=reason[:REASON_CHARS_MAX],
    )
    if settings.group_instance_id is not None:
        if version < STATIC_JOIN_FROM:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "this broker is too old for group_instance_id: leave it out",
            )
        request.group_instance_id = settings.group_instance_id
    return request


def sync_request(
    group_id: str,
    member: MemberIdentity,
    protocol_name: str | None,
    assignments: Mapping[str, bytes],
    version: int,
) -> Any:
    from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

    request = SyncGroupRequest(
        group_id=group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in assignments.items()
        ],
    )
    if version >= STATIC_SYNC_FROM:
        request.group_instance_id = member.instance_id
    return request


def heartbeat_request(group_id: str, member: MemberIdentity, version: int) -> Any:
    from ottla.protocol.messages.heartbeat import HeartbeatRequest

    request = HeartbeatRequest(
        group_id=group_id, generation_id=member.generation, member_id=member.member_id
    )
    if version >= STATIC_BEAT_FROM:
        request.group_instance_id = member.instance_id
    return request


def leave_request(group_id: str, member_id: str, reason: str, version: int) -> Any:
    from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

    if version < MANY_LEAVE_FROM:
        return LeaveGroupRequest(group_id=group_id, member_id=member_id)
    leaving = MemberIdentity(member_id=member_id, reason=reason[:REASON_CHARS_MAX])
    return LeaveGroupRequest(group_id=group_id, members=[leaving])
