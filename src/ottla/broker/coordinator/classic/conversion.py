"""The end of a classic group, and groups that change their kind: their members come from a consumer
group, or go to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.member import Member
from ottla.broker.coordinator.classic.sessions import restart_session
from ottla.broker.coordinator.classic.state import GroupState
from ottla.broker.coordinator.classic.stored import group_key, store
from ottla.broker.coordinator.classic.waiting import answer_join, answer_sync
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse


def delete(group: ClassicGroup, now: Now, outbox: Outbox) -> None:
    """Write the group's tombstone; the caller has made sure that it has no members."""
    outbox.append(group_key(group.group_id), None)
    dissolve(group, ErrorCode.UNKNOWN_MEMBER_ID, now, outbox)


def dissolve(group: ClassicGroup, code: ErrorCode, now: Now, outbox: Outbox) -> None:
    """End this object, not the group: answer all waiting requests with `code` and cancel all
    timers. Used when a group changes its kind."""
    members = group.members
    for member_id in [*members.joining]:
        answer = JoinGroupResponse(error_code=code, member_id=member_id)
        answer_join(group, member_id, answer, outbox)
    for member_id in [*members.syncing]:
        answer_sync(group, member_id, SyncGroupResponse(error_code=code), outbox)
    for member_id in [*members.by_id, *members.pending]:
        outbox.cancel_timer(group.heartbeat_key(member_id))
    outbox.cancel_timer(group.join_key)
    outbox.cancel_timer(group.sync_key)
    group.move_to(GroupState.DEAD, now)


def adopt(
    group: ClassicGroup,
    members: Iterable[Member],
    generation: int,
    assignment_of: Callable[[Member, bytes], bytes],
    now: Now,
    outbox: Outbox,
) -> None:
    """Take over, as a stable group, the members of a consumer group that all use the classic
    protocol. `assignment_of(member, metadata)` returns a member's assignment, given its metadata
    for the elected protocol. Call `rebalance` afterwards, unless one static member replaced
    another."""
    assert group.is_empty
    group.protocol_type = PROTOCOL_TYPE
    group.generation = generation
    for member in members:
        group.members.add(member)
    protocol = group.protocol_name = group.members.elected_protocol()
    for member in group.members:
        member.assignment = assignment_of(member, member.protocols[protocol])
        restart_session(group, member, now, outbox)
    group.note_subscriptions()
    group.state = GroupState.STABLE
    group.state_since_ms = now.wall_ms
    store(group, outbox)
