"""The state of a classic group, and what can be told from it.

A group is a pure state machine: given an event and the time, the functions beside this module
change its state at once and put records, replies and timers into the outbox. The states are drawn
in `state.py`.
"""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Final

from ottla.broker.coordinator.classic.member import NO_MEMBER_ID
from ottla.broker.coordinator.classic.members import Members
from ottla.broker.coordinator.classic.settings import GroupSettings
from ottla.broker.coordinator.classic.state import PREVIOUS_STATES, GroupState
from ottla.broker.coordinator.classic.subscription import subscribed_topics
from ottla.broker.coordinator.outbox import Now
from ottla.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode, KafkaError

TimerKey = tuple[Hashable, ...]


class InitialRebalance:
    """The first rebalance of an empty group: it waits for more members to start, and waits on while
    they do."""

    __slots__ = ("has_newcomer", "remaining_ms")

    def __init__(self, remaining_ms: int) -> None:
        self.remaining_ms = remaining_ms
        """How much longer the wait may become."""
        self.has_newcomer = False
        """True if a member joined since the wait was last extended."""

    def extend(self, delay_ms: int) -> int | None:
        """Return for how long to wait on, at most `delay_ms`; None if the wait is over."""
        if not self.has_newcomer or not self.remaining_ms:
            return None
        self.has_newcomer = False
        delay_ms = min(delay_ms, self.remaining_ms)
        self.remaining_ms -= delay_ms
        return delay_ms


class ClassicGroup:
    """`ClassicGroup(group_id, settings, random)` is a group without members."""

    kind: Final = "classic"
    successor: Final = None
    """A consumer group takes the place of a classic one only by a request of its own."""

    def __init__(self, group_id: str, settings: GroupSettings, random: Random) -> None:
        self.group_id = group_id
        self.settings = settings
        self.random = random
        self.image: MetadataImage = EMPTY_IMAGE
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = Members()
        self.state_since_ms: int | None = None
        """Wall-clock time; None for a group that never had a member."""
        self.rebalance_reason = ""
        """Why the last rebalance began, as text."""
        self.subscribed_topics: frozenset[str] | None = None
        """The topics that the members subscribe to; None if these are unknown."""
        self.is_stored = False
        self.unsynced: set[str] = set()
        """Members of this generation that have not yet asked for their assignment."""
        self.initial: InitialRebalance | None = None
        """Set if the last rebalance was the first one of an empty group."""

    # --- timers ---------------------------------------------------------------------------------

    @property
    def join_key(self) -> TimerKey:
        """The time to rejoin is over."""
        return (self.kind, self.group_id, "join")

    @property
    def sync_key(self) -> TimerKey:
        """The time to ask for the assignment is over."""
        return (self.kind, self.group_id, "sync")

    def heartbeat_key(self, member_id: str) -> TimerKey:
        """A member's session ended."""
        return (self.kind, self.group_id, "heartbeat", member_id)

    # --- changes --------------------------------------------------------------------------------

    def move_to(self, state: GroupState, now: Now) -> None:
        assert self.state in PREVIOUS_STATES[state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_since_ms = now.wall_ms

    def note_subscriptions(self) -> None:
        self.subscribed_topics = None
        if self.protocol_type == PROTOCOL_TYPE:
            if not len(self.members):
                self.subscribed_topics = frozenset()
            elif self.protocol_name is not None:
                protocol = self.protocol_name
                self.subscribed_topics = subscribed_topics(
                    member.protocols[protocol] for member in self.members
                )

    # --- members --------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_simple(self) -> bool:
        """True if the group only has offsets and never had a member."""
        return self.protocol_type is None and self.is_empty and not self.members.pending

    def refusal(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode | None:
        """Return why a request that claims to come from this member is refused; None if it is
        not."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        refusal = self.members.refusal(member_id, instance_id)
        if refusal is None and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return refusal

    def validate_delete(self) -> ErrorCode | None:
        if self.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return None if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    # --- offsets --------------------------------------------------------------------------------

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        api_version: int,
        transactional: bool,
    ) -> None:
        refusal = self.validate_offset_commit(
            member_id, instance_id, generation, transactional=transactional
        )
        if refusal is not None:
            raise KafkaError(refusal)

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool = False,
    ) -> ErrorCode | None:
        """Return why these offsets may not be committed; None if they may."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is GroupState.EMPTY:
            return None  # a tool, or a consumer that assigns its own partitions
        if generation >= 0 or member_id != NO_MEMBER_ID or instance_id is not None:
            refusal = self.refusal(member_id, instance_id, generation)
            if refusal is not None:
                return refusal
        elif not transactional and self.state is not GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return None

    def validate_offset_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        """Return None always: every client may fetch the offsets of a classic group."""
        return None

    def validate_offset_delete(self) -> ErrorCode | None:
        """Return the error if offsets may not be deleted at all. (Those of subscribed topics never
        may.)"""
        if self.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.is_empty or self.protocol_type == PROTOCOL_TYPE:
            return None
        return ErrorCode.NON_EMPTY_GROUP

    def offset_idle_since_ms(self, committed_ms: int) -> int | None:
        if self.protocol_type is None:
            return committed_ms
        if self.state is GroupState.EMPTY:
            return committed_ms if self.state_since_ms is None else self.state_since_ms
        stable = self.state is GroupState.STABLE
        return committed_ms if stable and self.subscribed_topics is not None else None

    def is_subscribed_to(self, topic: str) -> bool:
        """If subscriptions are unknown, assume that a consumer group is subscribed."""
        if self.subscribed_topics is None:
            return self.protocol_type == PROTOCOL_TYPE
        return topic in self.subscribed_topics
