"""The phases of a rebalance: gather the members, tell them who leads, hand out the assignment.

Every phase ends by itself, since each has a timer of its own:

    ("classic", group, "join")               the members had their time to rejoin
    ("classic", group, "sync")               the members had their time to ask for their assignment
    ("classic", group, "heartbeat", member)  a member's session ended

A member whose request waits here counts as alive; when the request is answered its session starts.
"""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Any, Final

from ottla.coordinator.classic.member import Member
from ottla.coordinator.classic.members import Members
from ottla.coordinator.classic.settings import GroupSettings
from ottla.coordinator.classic.state import PREVIOUS_STATES, GroupState
from ottla.coordinator.classic.stored import group_key, stored_member, stored_size
from ottla.coordinator.classic.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from ottla.coordinator.outbox import Now, Outbox
from ottla.protocol.coordinator_records.group_metadata import GroupMetadataValue
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group import SyncGroupResponse

GENERATION_MAX: Final = 2**31 - 1
NOBODY_JOINED_WAIT_MS_MIN: Final = 1_000
"""Only silent static members are left: look again when their time is over, but not in a rush."""

TimerKey = tuple[Hashable, ...]


class Phases:
    """The state of one group, and how it moves."""

    def __init__(self, group_id: str, settings: GroupSettings, random: Random) -> None:
        self.group_id = group_id
        self.settings = settings
        self.random = random
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = Members()
        self.state_since_ms: int | None = None
        """By the wall clock; None for groups that never had a member."""
        self.rebalance_reason = ""
        """Why the last rebalance began, in words."""
        self._subscribed_topics: frozenset[str] | None = None
        self._stored = False
        self._unsynced: set[str] = set()
        """Members of this generation that have not yet asked for their assignment."""
        self._initial = False
        """This rebalance is the first of an empty group, which waits for more members."""
        self._initial_remaining_ms = 0
        self._newcomer = False
        """Somebody joined since the wait for more members was last extended."""

    # --- what others ask for --------------------------------------------------------------------

    def rebalance(self, reason: str, now: Now, outbox: Outbox) -> None:
        """Gather the members again, or see whether they are all there if that is under way."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_join_if_ready(now, outbox)
        else:
            self._prepare(reason, now, outbox)

    # --- gathering ------------------------------------------------------------------------------

    def _prepare(self, reason: str, now: Now, outbox: Outbox) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._take_back_assignments(ErrorCode.REBALANCE_IN_PROGRESS, now, outbox)
        self._unsynced.clear()
        outbox.cancel_timer(self._sync_key)
        self._initial = self.state is GroupState.EMPTY
        self.rebalance_reason = reason
        self._move_to(GroupState.PREPARING_REBALANCE, now)
        if self._initial:
            self._newcomer = False
            delay_ms = self.settings.initial_rebalance_delay_ms
            self._initial_remaining_ms = max(self.members.rebalance_timeout_ms - delay_ms, 0)
            outbox.set_timer(self._join_key, now.ms + delay_ms)
        elif self.members.all_joined:
            self._complete_join(now, outbox)
        else:
            outbox.set_timer(self._join_key, now.ms + self.members.rebalance_timeout_ms)

    def _complete_join_if_ready(self, now: Now, outbox: Outbox) -> None:
        """The first rebalance always waits out its delay: more members may be starting."""
        gathering = self.state is GroupState.PREPARING_REBALANCE
        if gathering and not self._initial and self.members.all_joined:
            self._complete_join(now, outbox)

    def _join_time_is_over(self, now: Now, outbox: Outbox) -> None:
        if self.state is not GroupState.PREPARING_REBALANCE:
            return
        if self._initial and self._newcomer and self._initial_remaining_ms:
            self._newcomer = False
            delay_ms = min(self.settings.initial_rebalance_delay_ms, self._initial_remaining_ms)
            self._initial_remaining_ms -= delay_ms
            outbox.set_timer(self._join_key, now.ms + delay_ms)
        else:
            self._complete_join(now, outbox)

    def _complete_join(self, now: Now, outbox: Outbox) -> None:
        outbox.cancel_timer(self._join_key)
        for member in self.members.not_joined:
            if not member.is_static:  # a static member may be restarting: its session decides
                self._drop(member.member_id, outbox)
        if not self.members.elect_leader_among_joined() and len(self.members):
            wait_ms = max(self.members.rebalance_timeout_ms, NOBODY_JOINED_WAIT_MS_MIN)
            outbox.set_timer(self._join_key, now.ms + wait_ms)
            return
        self.generation = self.generation + 1 if self.generation < GENERATION_MAX else 1
        if len(self.members):
            self._begin_generation(now, outbox)
        else:
            self._become_empty(now, outbox)

    def _become_empty(self, now: Now, outbox: Outbox) -> None:
        self.protocol_name = None
        self._note_subscriptions()
        self._move_to(GroupState.EMPTY, now)
        self._store(outbox)

    def _begin_generation(self, now: Now, outbox: Outbox) -> None:
        self.protocol_name = self.members.elected_protocol()
        self._note_subscriptions()
        self._move_to(GroupState.COMPLETING_REBALANCE, now)
        for member in self.members:
            self._answer_join(member.member_id, self._joined(member), outbox)
            self._restart_session(member, now, outbox)
            member.is_new = False
        self._unsynced = set(self.members.by_id)
        outbox.set_timer(self._sync_key, now.ms + self.members.rebalance_timeout_ms)

    def _joined(self, member: Member, *, skip_assignment: bool = False) -> JoinGroupResponse:
        """The generation as this member is to know it: the leader is told of all the others."""
        leads = member.member_id == self.members.leader_id
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.members.leader_id or "",
            member_id=member.member_id,
            members=self._members_for_leader() if leads else [],
            skip_assignment=skip_assignment,
        )

    def _members_for_leader(self) -> list[JoinGroupResponseMember]:
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.protocols[self.protocol_name],
            )
            for member in self.members
        ]

    # --- handing out ----------------------------------------------------------------------------

    def _hand_out(self, assignments: dict[str, bytes], now: Now, outbox: Outbox) -> None:
        """The leader has decided. Whom it forgot gets nothing to do."""
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
        if not self._fits_on_record:
            self._take_back_assignments(ErrorCode.UNKNOWN_SERVER_ERROR, now, outbox)
            self._prepare("the assignment is too large to be stored", now, outbox)
            return
        self._move_to(GroupState.STABLE, now)
        self._store(outbox)
        for member in self.members:
            if self._answer_sync(member.member_id, self._synced(member), outbox):
                self._restart_session(member, now, outbox)

    def _synced(self, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def _take_back_assignments(self, code: ErrorCode, now: Now, outbox: Outbox) -> None:
        for member in self.members:
            member.assignment = b""
            refusal = SyncGroupResponse(error_code=code)
            if self._answer_sync(member.member_id, refusal, outbox):
                self._restart_session(member, now, outbox)

    def _note_synced(self, member_id: str, outbox: Outbox) -> None:
        self._unsynced.discard(member_id)
        if not self._unsynced:
            outbox.cancel_timer(self._sync_key)

    def _sync_time_is_over(self, now: Now, outbox: Outbox) -> None:
        """Who did not ask for its assignment in time cannot be working on it."""
        if self._unsynced:
            missing = sorted(self._unsynced)
            for member_id in missing:
                self._drop(member_id, outbox)
            self._prepare(f"no sync from {', '.join(missing)}", now, outbox)

    # --- members --------------------------------------------------------------------------------

    def _session_ended(self, member_id: str, now: Now, outbox: Outbox) -> None:
        if member_id in self.members.pending:
            self._drop(member_id, outbox)
            if self.state is GroupState.PREPARING_REBALANCE and self.members.all_joined:
                self._complete_join(now, outbox)
        elif member_id in self.members and not self._is_waiting(self.members[member_id]):
            self._drop(member_id, outbox)
            if self.state is not GroupState.PREPARING_REBALANCE:
                self._prepare(f"member {member_id} sent no heartbeat", now, outbox)
            elif self.members.all_joined:
                self._complete_join(now, outbox)

    def _is_waiting(self, member: Member) -> bool:
        """A waiting request stands for the heartbeats, except of newcomers: their clients may have
        gone and come again under another id, and nothing else would ever remove them."""
        waits = member.member_id in self.members.joining or member.member_id in self.members.syncing
        return waits and not member.is_new

    def _drop(self, member_id: str, outbox: Outbox) -> None:
        """Remove a member or a pending id; whatever it still waits for ends with an error."""
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        self._answer_join(member_id, JoinGroupResponse(error_code=unknown), outbox)
        self._answer_sync(member_id, SyncGroupResponse(error_code=unknown), outbox)
        outbox.cancel_timer(self._heartbeat_key(member_id))
        self._unsynced.discard(member_id)
        self.members.remove(member_id)

    def _restart_session(self, member: Member, now: Now, outbox: Outbox) -> None:
        due_ms = now.ms + member.session_timeout_ms
        outbox.set_timer(self._heartbeat_key(member.member_id), due_ms)

    # --- waiting requests -----------------------------------------------------------------------

    def _wait_to_join(self, member_id: str, token: Any, outbox: Outbox) -> None:
        """Only the newest join of a member counts; an older one is from a lost connection."""
        again = JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member_id)
        self._answer_join(member_id, again, outbox)
        self.members.joining[member_id] = token

    def _wait_to_sync(self, member_id: str, token: Any, outbox: Outbox) -> None:
        again = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        self._answer_sync(member_id, again, outbox)
        self.members.syncing[member_id] = token

    def _answer_join(self, member_id: str, response: JoinGroupResponse, outbox: Outbox) -> bool:
        return _answer(self.members.joining, member_id, response, outbox)

    def _answer_sync(self, member_id: str, response: SyncGroupResponse, outbox: Outbox) -> bool:
        return _answer(self.members.syncing, member_id, response, outbox)

    # --- state ----------------------------------------------------------------------------------

    def _move_to(self, state: GroupState, now: Now) -> None:
        assert self.state in PREVIOUS_STATES[state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_since_ms = now.wall_ms

    def _note_subscriptions(self) -> None:
        self._subscribed_topics = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            if not len(self.members):
                self._subscribed_topics = frozenset()
            elif self.protocol_name is not None:
                protocol = self.protocol_name
                self._subscribed_topics = subscribed_topics(
                    member.protocols[protocol] for member in self.members
                )

    def _store(self, outbox: Outbox) -> None:
        protocol = self.protocol_name
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=protocol,
            leader=self.members.leader_id,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
        )
        if protocol is not None:
            value.members = [stored_member(member, protocol) for member in self.members]
        outbox.append(group_key(self.group_id), value)
        self._stored = True

    @property
    def _fits_on_record(self) -> bool:
        assert self.protocol_name is not None
        return stored_size(self.members, self.protocol_name) <= self.settings.record_bytes_max

    @property
    def _join_key(self) -> TimerKey:
        return ("classic", self.group_id, "join")

    @property
    def _sync_key(self) -> TimerKey:
        return ("classic", self.group_id, "sync")

    def _heartbeat_key(self, member_id: str) -> TimerKey:
        return ("classic", self.group_id, "heartbeat", member_id)


def _answer(waiting: dict[str, Any], member_id: str, response: Any, outbox: Outbox) -> bool:
    if member_id not in waiting:
        return False
    outbox.reply(waiting.pop(member_id), response)
    return True
