"""Sessions of members. A member whose request waits counts as alive; its session starts when the
request is answered."""

from __future__ import annotations

from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.member import Member
from ottla.broker.coordinator.classic.state import GroupState
from ottla.broker.coordinator.classic.waiting import answer_join, answer_sync
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse


def restart_session(group: ClassicGroup, member: Member, now: Now, outbox: Outbox) -> None:
    due_ms = now.ms + member.session_timeout_ms
    outbox.set_timer(group.heartbeat_key(member.member_id), due_ms)


def offsets_committed(group: ClassicGroup, member_id: str, now: Now, outbox: Outbox) -> None:
    """Restart the member's session: a commit counts as a heartbeat."""
    if member_id in group.members and group.state in (
        GroupState.STABLE,
        GroupState.PREPARING_REBALANCE,
    ):
        restart_session(group, group.members[member_id], now, outbox)


def is_waiting(group: ClassicGroup, member: Member) -> bool:
    """True if a waiting request replaces the heartbeats. For new members it does not: their clients
    may have left and joined again under another id, and nothing else would ever remove them."""
    members = group.members
    waits = member.member_id in members.joining or member.member_id in members.syncing
    return waits and not member.is_new


def drop(group: ClassicGroup, member_id: str, outbox: Outbox) -> None:
    """Remove a member or a pending id; its waiting requests are answered with an error."""
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    answer_join(group, member_id, JoinGroupResponse(error_code=unknown), outbox)
    answer_sync(group, member_id, SyncGroupResponse(error_code=unknown), outbox)
    outbox.cancel_timer(group.heartbeat_key(member_id))
    group.unsynced.discard(member_id)
    group.members.remove(member_id)
