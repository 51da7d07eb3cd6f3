"""The phases of a rebalance: collect the members, announce the leader, distribute the assignment.

Every phase has a timer, so each ends by itself: see the timer keys of `ClassicGroup`.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.coordinator.classic.group import ClassicGroup, InitialRebalance, TimerKey
from ottla.broker.coordinator.classic.member import Member
from ottla.broker.coordinator.classic.sessions import drop, is_waiting, restart_session
from ottla.broker.coordinator.classic.state import GroupState
from ottla.broker.coordinator.classic.stored import fits_on_record, store
from ottla.broker.coordinator.classic.waiting import answer_join, answer_sync
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group import SyncGroupResponse

GENERATION_MAX: Final = 2**31 - 1
NOBODY_JOINED_WAIT_MS_MIN: Final = 1_000
"""Minimum delay before the next check when only silent static members are left."""


def rebalance(group: ClassicGroup, reason: str, now: Now, outbox: Outbox) -> None:
    """Start a rebalance, or complete the one in progress if all members have joined."""
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_join_if_ready(group, now, outbox)
    else:
        _prepare(group, reason, now, outbox)


def timer_fired(group: ClassicGroup, key: TimerKey, now: Now, outbox: Outbox) -> None:
    match key[2:]:
        case ("join",):
            _join_time_is_over(group, now, outbox)
        case ("sync",):
            _sync_time_is_over(group, now, outbox)
        case ("heartbeat", str(member_id)):
            _session_ended(group, member_id, now, outbox)


def loaded(group: ClassicGroup, now: Now, outbox: Outbox) -> None:
    """Start the sessions of all members after loading: each has its session timeout to send a
    request."""
    for member in group.members:
        restart_session(group, member, now, outbox)
    most = group.settings.members_max
    if len(group.members) > most:
        _prepare(group, f"{len(group.members)} members, and {most} may be", now, outbox)


# --- joining ------------------------------------------------------------------------------------


def _prepare(group: ClassicGroup, reason: str, now: Now, outbox: Outbox) -> None:
    members = group.members
    if group.state is GroupState.COMPLETING_REBALANCE:
        _take_back_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, now, outbox)
    group.unsynced.clear()
    outbox.cancel_timer(group.sync_key)
    was_empty = group.state is GroupState.EMPTY
    group.rebalance_reason = reason
    group.initial = None
    group.move_to(GroupState.PREPARING_REBALANCE, now)
    if was_empty:
        delay_ms = group.settings.initial_rebalance_delay_ms
        group.initial = InitialRebalance(max(members.rebalance_timeout_ms - delay_ms, 0))
        outbox.set_timer(group.join_key, now.ms + delay_ms)
    elif members.all_joined:
        _complete_join(group, now, outbox)
    else:
        outbox.set_timer(group.join_key, now.ms + members.rebalance_timeout_ms)


def complete_join_if_ready(group: ClassicGroup, now: Now, outbox: Outbox) -> None:
    """Complete the join if all members are there. The first rebalance always waits for its full
    delay, as more members may be starting."""
    gathering = group.state is GroupState.PREPARING_REBALANCE
    if gathering and group.initial is None and group.members.all_joined:
        _complete_join(group, now, outbox)


def _join_time_is_over(group: ClassicGroup, now: Now, outbox: Outbox) -> None:
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    delay_ms = None
    if group.initial is not None:
        delay_ms = group.initial.extend(group.settings.initial_rebalance_delay_ms)
    if delay_ms is None:
        _complete_join(group, now, outbox)
    else:
        outbox.set_timer(group.join_key, now.ms + delay_ms)


def _complete_join(group: ClassicGroup, now: Now, outbox: Outbox) -> None:
    members = group.members
    outbox.cancel_timer(group.join_key)
    for member in members.not_joined:
        # a static member may be restarting: only its session timeout removes it
        if not member.is_static:
            drop(group, member.member_id, outbox)
    if not members.elect_leader_among_joined() and len(members):
        wait_ms = max(members.rebalance_timeout_ms, NOBODY_JOINED_WAIT_MS_MIN)
        outbox.set_timer(group.join_key, now.ms + wait_ms)
        return
    group.generation = group.generation + 1 if group.generation < GENERATION_MAX else 1
    if len(members):
        _begin_generation(group, now, outbox)
    else:
        _become_empty(group, now, outbox)


def _become_empty(group: ClassicGroup, now: Now, outbox: Outbox) -> None:
    group.protocol_name = None
    group.note_subscriptions()
    group.move_to(GroupState.EMPTY, now)
    store(group, outbox)


def _begin_generation(group: ClassicGroup, now: Now, outbox: Outbox) -> None:
    members = group.members
    group.protocol_name = members.elected_protocol()
    group.note_subscriptions()
    group.move_to(GroupState.COMPLETING_REBALANCE, now)
    for member in members:
        answer_join(group, member.member_id, joined_response(group, member), outbox)
        restart_session(group, member, now, outbox)
        member.is_new = False
    group.unsynced = set(members.by_id)
    outbox.set_timer(group.sync_key, now.ms + members.rebalance_timeout_ms)


def joined_response(
    group: ClassicGroup, member: Member, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Return the generation as told to this member; only the leader is told of the others."""
    leads = member.member_id == group.members.leader_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.members.leader_id or "",
        member_id=member.member_id,
        members=_members_for_leader(group) if leads else [],
        skip_assignment=skip_assignment,
    )


def _members_for_leader(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    protocol = group.protocol_name
    assert protocol is not None
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.protocols[protocol],
        )
        for member in group.members
    ]


# --- assignment ---------------------------------------------------------------------------------


def hand_out(group: ClassicGroup, assignments: dict[str, bytes], now: Now, outbox: Outbox) -> None:
    """Store and distribute the leader's assignments. A member that it left out gets an empty
    one."""
    for member in group.members:
        member.assignment = assignments.get(member.member_id, b"")
    if not fits_on_record(group):
        _take_back_assignments(group, ErrorCode.UNKNOWN_SERVER_ERROR, now, outbox)
        _prepare(group, "the assignment is too large to be stored", now, outbox)
        return
    group.move_to(GroupState.STABLE, now)
    store(group, outbox)
    for member in group.members:
        if answer_sync(group, member.member_id, synced_response(group, member), outbox):
            restart_session(group, member, now, outbox)


def synced_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def _take_back_assignments(group: ClassicGroup, code: ErrorCode, now: Now, outbox: Outbox) -> None:
    for member in group.members:
        member.assignment = b""
        if answer_sync(group, member.member_id, SyncGroupResponse(error_code=code), outbox):
            restart_session(group, member, now, outbox)


def _sync_time_is_over(group: ClassicGroup, now: Now, outbox: Outbox) -> None:
    """Remove the members that did not ask for their assignment in time: they cannot be working on
    it."""
    if group.unsynced:
        missing = sorted(group.unsynced)
        for member_id in missing:
            drop(group, member_id, outbox)
        _prepare(group, f"no sync from {', '.join(missing)}", now, outbox)


# --- members ------------------------------------------------------------------------------------


def _session_ended(group: ClassicGroup, member_id: str, now: Now, outbox: Outbox) -> None:
    members = group.members
    if member_id in members.pending:
        drop(group, member_id, outbox)
        if group.state is GroupState.PREPARING_REBALANCE and members.all_joined:
            _complete_join(group, now, outbox)
    elif member_id in members and not is_waiting(group, members[member_id]):
        drop(group, member_id, outbox)
        if group.state is not GroupState.PREPARING_REBALANCE:
            _prepare(group, f"member {member_id} sent no heartbeat", now, outbox)
        elif members.all_joined:
            _complete_join(group, now, outbox)
