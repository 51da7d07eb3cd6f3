"""One classic group: what requests, timers and stored records do to it.

A pure machine: it is told an event and the time, changes itself at once, and leaves in the outbox
what is to be stored, answered and waited for. The states are drawn in `state.py`. Replies are
always complete; fields that an old version of an API does not have are the handler's to fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.coordinator.classic.client import Client
from ottla.coordinator.classic.joining import NO_MEMBER_ID, Joining
from ottla.coordinator.classic.member import Member
from ottla.coordinator.classic.members import Members
from ottla.coordinator.classic.phases import TimerKey
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.classic.stored import group_key, loaded_members
from ottla.coordinator.classic.subscription import CONSUMER_PROTOCOL_TYPE
from ottla.coordinator.outbox import Now, Outbox
from ottla.protocol.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicGroup(Joining):
    """`ClassicGroup(group_id, settings, random)` is a group that nobody has joined yet."""

    # --- requests (join is in `Joining`) --------------------------------------------------------

    def sync(
        self, request: SyncGroupRequest, client: Client, token: Any, now: Now, outbox: Outbox
    ) -> None:
        """A member asks for its assignment; the leader's request carries everybody's."""
        refusal = self._sync_refusal(request)
        if refusal is not None:
            outbox.reply(token, SyncGroupResponse(error_code=refusal))
            return
        member_id = request.member_id
        self._note_synced(member_id, outbox)
        if self.state is GroupState.STABLE:
            outbox.reply(token, self._synced(self.members[member_id]))
            return
        self._wait_to_sync(member_id, token, outbox)
        if member_id == self.members.leader_id:
            assignments = {one.member_id: one.assignment for one in request.assignments}
            self._hand_out(assignments, now, outbox)

    def _sync_refusal(self, request: SyncGroupRequest) -> ErrorCode | None:
        refusal = self._refusal(request.member_id, request.group_instance_id, request.generation_id)
        if refusal is not None:
            return refusal
        if _differs(request.protocol_type, self.protocol_type) or _differs(
            request.protocol_name, self.protocol_name
        ):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return None

    def heartbeat(
        self, request: HeartbeatRequest, client: Client, token: Any, now: Now, outbox: Outbox
    ) -> None:
        """A member lives; in return it learns whether it has to rejoin."""
        code = self._refusal(request.member_id, request.group_instance_id, request.generation_id)
        if code is None:
            self._restart_session(self.members[request.member_id], now, outbox)
            if self.state is GroupState.PREPARING_REBALANCE:
                code = ErrorCode.REBALANCE_IN_PROGRESS
        outbox.reply(token, HeartbeatResponse(error_code=code or ErrorCode.NONE))

    def leave(
        self, request: LeaveGroupRequest, client: Client, token: Any, now: Now, outbox: Outbox
    ) -> None:
        """Members leave, or are made to by an operator who knows their instance ids. The one member
        that a request of an old version names is expected in `members`, too."""
        if self.state is GroupState.DEAD:
            refusal = LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            outbox.reply(token, refusal)
            return
        leaving = request.members
        answers = [self._let_go(one, outbox) for one in leaving]
        outbox.reply(token, LeaveGroupResponse(members=answers))
        gone = [one for one, answer in zip(leaving, answers, strict=True) if not answer.error_code]
        if gone and self.state is not GroupState.EMPTY:
            self.rebalance("; ".join(map(_left, gone)), now, outbox)

    def _let_go(self, one: MemberIdentity, outbox: Outbox) -> MemberResponse:
        code: ErrorCode | None = None
        member_id = one.member_id
        if member_id == NO_MEMBER_ID:
            member_id = self.members.static_ids.get(one.group_instance_id or "", NO_MEMBER_ID)
        if member_id not in self.members.pending:
            code = self.members.refusal(member_id, one.group_instance_id)
        if code is None:
            self._drop(member_id, outbox)
        return MemberResponse(
            member_id=one.member_id,
            group_instance_id=one.group_instance_id,
            error_code=code or ErrorCode.NONE,
        )

    def _refusal(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode | None:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        refusal = self.members.refusal(member_id, instance_id)
        if refusal is None and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return refusal

    # --- time -----------------------------------------------------------------------------------

    def timer_fired(self, key: TimerKey, now: Now, outbox: Outbox) -> None:
        match key[2:]:
            case ("join",):
                self._join_time_is_over(now, outbox)
            case ("sync",):
                self._sync_time_is_over(now, outbox)
            case ("heartbeat", str(member_id)):
                self._session_ended(member_id, now, outbox)

    # --- offsets --------------------------------------------------------------------------------

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool = False,
    ) -> ErrorCode | None:
        """Why these offsets may not be committed; None if they may."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is GroupState.EMPTY:
            return None  # a tool, or a consumer that assigns partitions to itself
        if generation >= 0 or member_id != NO_MEMBER_ID or instance_id is not None:
            refusal = self._refusal(member_id, instance_id, generation)
            if refusal is not None:
                return refusal
        elif not transactional and self.state is not GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return None

    def offsets_committed(self, member_id: str, now: Now, outbox: Outbox) -> None:
        """A commit is as good as a heartbeat."""
        if member_id in self.members and self.state in (
            GroupState.STABLE,
            GroupState.PREPARING_REBALANCE,
        ):
            self._restart_session(self.members[member_id], now, outbox)

    def validate_offset_delete(self) -> ErrorCode | None:
        """Whether offsets may be deleted at all; of subscribed topics they may not, besides."""
        if self.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.is_empty or self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return None
        return ErrorCode.NON_EMPTY_GROUP

    def offset_idle_since_ms(self, committed_ms: int) -> int | None:
        """From when on the retention of an offset counts that was committed at `committed_ms`, by
        the wall clock; None while it cannot expire. Of subscribed topics none expires."""
        if self.protocol_type is None:
            return committed_ms
        if self.state is GroupState.EMPTY:
            return committed_ms if self.state_since_ms is None else self.state_since_ms
        stable = self.state is GroupState.STABLE
        return committed_ms if stable and self._subscribed_topics is not None else None

    def subscribed_topics(self) -> frozenset[str] | None:
        """What the members of a group of consumers want; None if that cannot be known."""
        return self._subscribed_topics

    def is_subscribed_to(self, topic: str) -> bool:
        """In doubt a consumer is."""
        if self._subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self._subscribed_topics

    # --- what others see ------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_simple(self) -> bool:
        """Offsets only, no member ever."""
        return self.protocol_type is None and self.is_empty and not self.members.pending

    def describe(self) -> DescribedGroup:
        protocol = self.protocol_name if self.state is GroupState.STABLE else None
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol_data=protocol or "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=b"" if protocol is None else member.protocols[protocol],
                    member_assignment=member.assignment,
                )
                for member in self.members
            ],
        )

    # --- records --------------------------------------------------------------------------------

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """Become what the record says. A tombstone ends the group."""
        self.members = Members()
        self._unsynced.clear()
        if value is None:
            self.state = GroupState.DEAD
            return
        self._stored = True
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        timestamp_ms = value.current_state_timestamp
        self.state_since_ms = None if timestamp_ms == -1 else timestamp_ms
        for member in loaded_members(value):
            self.members.add(member)
        if value.leader is not None:
            self.members.leader_id = value.leader
        self.state = GroupState.STABLE if value.members else GroupState.EMPTY
        self._note_subscriptions()

    def loaded(self, now: Now, outbox: Outbox) -> None:
        """All records were replayed; the members have a session's time to come here."""
        for member in self.members:
            self._restart_session(member, now, outbox)
        if len(self.members) > self.settings.members_max:
            reason = f"{len(self.members)} members, and {self.settings.members_max} may be"
            self._prepare(reason, now, outbox)

    def validate_delete(self) -> ErrorCode | None:
        if self.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return None if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def delete(self, now: Now, outbox: Outbox) -> None:
        """Remove every trace; the caller has made sure that nobody is in it."""
        outbox.append(group_key(self.group_id), None)
        self.dissolve(ErrorCode.UNKNOWN_MEMBER_ID, now, outbox)

    def dissolve(self, code: ErrorCode, now: Now, outbox: Outbox) -> None:
        """End this machine, not the group: all who wait are told `code`, no timer stays. For a
        coordinator that hands its partition over, and for a group that changes its kind."""
        for member_id in [*self.members.joining]:
            answer = JoinGroupResponse(error_code=code, member_id=member_id)
            self._answer_join(member_id, answer, outbox)
        for member_id in [*self.members.syncing]:
            self._answer_sync(member_id, SyncGroupResponse(error_code=code), outbox)
        for member_id in [*self.members.by_id, *self.members.pending]:
            outbox.cancel_timer(self._heartbeat_key(member_id))
        outbox.cancel_timer(self._join_key)
        outbox.cancel_timer(self._sync_key)
        self._move_to(GroupState.DEAD, now)

    # --- change of kind -------------------------------------------------------------------------

    def adopt(
        self,
        members: Iterable[Member],
        generation: int,
        assignment_of: Callable[[Member, bytes], bytes],
        now: Now,
        outbox: Outbox,
    ) -> None:
        """Become, stable, what a consumer group was whose members all speak the classic protocol.
        `assignment_of(member, metadata)` is what each works on, its metadata being that of the
        protocol they elect. Follow with `rebalance`, unless one static member took another's place.
        """
        assert self.is_empty
        self.protocol_type = CONSUMER_PROTOCOL_TYPE
        self.generation = generation
        for member in members:
            self.members.add(member)
        protocol = self.protocol_name = self.members.elected_protocol()
        for member in self.members:
            member.assignment = assignment_of(member, member.protocols[protocol])
            self._restart_session(member, now, outbox)
        self._note_subscriptions()
        self.state = GroupState.STABLE
        self.state_since_ms = now.wall_ms
        self._store(outbox)


def _differs(told: str | None, known: str | None) -> bool:
    return told is not None and known is not None and told != known


def _left(one: MemberIdentity) -> str:
    name = one.member_id or one.group_instance_id
    return f"member {name} left" + (f"; client reason: {one.reason}" if one.reason else "")
