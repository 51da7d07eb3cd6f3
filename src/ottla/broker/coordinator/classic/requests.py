"""SyncGroup, Heartbeat and LeaveGroup of a classic group.

Replies always have all fields; the handler removes those that an old API version does not have.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.member import NO_MEMBER_ID
from ottla.broker.coordinator.classic.rebalancing import hand_out, rebalance, synced_response
from ottla.broker.coordinator.classic.sessions import drop, restart_session
from ottla.broker.coordinator.classic.state import GroupState
from ottla.broker.coordinator.classic.waiting import wait_to_sync
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# --- sync ---------------------------------------------------------------------------------------


def sync(
    group: ClassicGroup,
    request: SyncGroupRequest,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    """A member asks for its assignment; the leader's request carries the assignments of all
    members."""
    refusal = _sync_refusal(group, request)
    if refusal is not None:
        outbox.reply(token, SyncGroupResponse(error_code=refusal))
        return
    member_id = request.member_id
    group.unsynced.discard(member_id)
    if not group.unsynced:
        outbox.cancel_timer(group.sync_key)
    if group.state is GroupState.STABLE:
        outbox.reply(token, synced_response(group, group.members[member_id]))
        return
    wait_to_sync(group, member_id, token, outbox)
    if member_id == group.members.leader_id:
        assignments = {one.member_id: one.assignment for one in request.assignments}
        hand_out(group, assignments, now, outbox)


def _sync_refusal(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode | None:
    refusal = group.refusal(request.member_id, request.group_instance_id, request.generation_id)
    if refusal is not None:
        return refusal
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return None


def _differs(told: str | None, known: str | None) -> bool:
    return told is not None and known is not None and told != known


# --- heartbeat ----------------------------------------------------------------------------------


def heartbeat(
    group: ClassicGroup,
    request: HeartbeatRequest,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    """A member reports that it is alive, and learns whether it has to rejoin."""
    code = group.refusal(request.member_id, request.group_instance_id, request.generation_id)
    if code is None:
        restart_session(group, group.members[request.member_id], now, outbox)
        if group.state is GroupState.PREPARING_REBALANCE:
            code = ErrorCode.REBALANCE_IN_PROGRESS
    outbox.reply(token, HeartbeatResponse(error_code=code or ErrorCode.NONE))


# --- leave --------------------------------------------------------------------------------------


def leave(
    group: ClassicGroup,
    request: LeaveGroupRequest,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    """Remove members that leave, or that an operator removes by their instance ids. For old
    versions the caller puts the single member of the request into `members`."""
    if group.state is GroupState.DEAD:
        refusal = LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        outbox.reply(token, refusal)
        return
    leaving = request.members
    answers = [_remove_member(group, one, outbox) for one in leaving]
    outbox.reply(token, LeaveGroupResponse(members=answers))
    gone = [one for one, answer in zip(leaving, answers, strict=True) if not answer.error_code]
    if gone and group.state is not GroupState.EMPTY:
        rebalance(group, "; ".join(map(_left, gone)), now, outbox)


def _remove_member(group: ClassicGroup, one: MemberIdentity, outbox: Outbox) -> MemberResponse:
    code: ErrorCode | None = None
    member_id = one.member_id
    if member_id == NO_MEMBER_ID:
        member_id = group.members.static_ids.get(one.group_instance_id or "", NO_MEMBER_ID)
    if member_id not in group.members.pending:
        code = group.members.refusal(member_id, one.group_instance_id)
    if code is None:
        drop(group, member_id, outbox)
    return MemberResponse(
        member_id=one.member_id,
        group_instance_id=one.group_instance_id,
        error_code=code or ErrorCode.NONE,
    )


def _left(one: MemberIdentity) -> str:
    name = one.member_id or one.group_instance_id
    return f"member {name} left" + (f"; client reason: {one.reason}" if one.reason else "")
