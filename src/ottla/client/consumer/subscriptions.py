"""What a consumer reads: topics or partitions it chose, and how far each partition has come.

A consumer either subscribes (to names or to a pattern; the group then gives it partitions) or is
assigned partitions by hand. The two exclude each other until `unsubscribe`.

Three offsets of a partition must not be mixed up:

    consumed   everything before it is done: what may be committed
    position   the next record to hand out
    fetched    the next record to ask a broker for; what lies between waits in the buffer

A record counts as consumed when the application comes back for more: until then it may still fail
in the application's hands, and must then come again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from re import Pattern
from typing import TYPE_CHECKING

from ottla.client.consumer.arguments import partitions as as_partitions
from ottla.client.consumer.arguments import topic_names
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.errors import IllegalState
from ottla.client.values import AnyRecord, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer.rebalance_listener import RebalanceListener


class InHand:
    """The record that iteration has handed out last, while the application works on it."""

    __slots__ = ("record", "state")

    def __init__(self) -> None:
        self.record: AnyRecord | None = None
        self.state: PartitionState | None = None


class Subscriptions:
    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        """What was subscribed to; for a pattern, the topics that match it now."""
        self.pattern: Pattern[str] | str | None = None
        """As a plain text it is for the coordinator to match (the new protocol)."""
        self.is_manual = False
        self.listener: RebalanceListener | None = None
        self.states: dict[TopicPartition, PartitionState] = {}
        self.assignment_changed: Callable[[], None] = _nothing
        """Called after partitions came or went."""
        self.done_by: Callable[[TopicPartition], OffsetAndMetadata | None] | None = None
        """Says what is consumed of a partition whose records are worked on in parallel."""
        self.in_hand = InHand()
        self._held: dict[PartitionState, OffsetAndMetadata] = {}
        # Where partitions stood before the records that the application has in its hands.

    # What to read

    @property
    def is_subscribed(self) -> bool:
        """Whether the group decides which partitions are read here."""
        return bool(self.topics) or self.pattern is not None

    @property
    def is_empty(self) -> bool:
        """Whether nothing can ever come, as nothing was said about what to read."""
        return not (self.is_subscribed or self.is_manual)

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        pattern: Pattern[str] | str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Replaces what was subscribed to; the partitions stay until the group has decided anew."""
        self._refuse_mixing(self.is_manual, "subscribe()", "assign()")
        if pattern is not None and topics is not None:
            raise IllegalState("subscribe() takes topics or a pattern, not both")
        names = frozenset() if topics is None else topic_names(topics)
        if self.is_subscribed and (pattern is None) != (self.pattern is None):
            raise IllegalState(
                "a consumer subscribes to names or to a pattern; call unsubscribe() in between"
            )
        self.topics = self.topics if pattern is not None else names
        self.pattern = pattern
        self.listener = listener

    def matched(self, topics: Iterable[str]) -> bool:
        """The topics that match the pattern now; whether they are others than before."""
        names = frozenset(topics)
        changed = names != self.topics
        self.topics = names
        return changed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these; those that were assigned before keep their positions."""
        self._refuse_mixing(self.is_subscribed, "assign()", "subscribe()")
        wanted = frozenset(as_partitions(partitions))
        self.is_manual = bool(wanted)
        self._change(wanted - self.states.keys(), self.states.keys() - wanted)

    def unsubscribe(self) -> None:
        self.topics = frozenset()
        self.pattern = None
        self.listener = None
        self.is_manual = False
        self._change((), list(self.states))

    def assign_from_group(
        self, added: Iterable[TopicPartition], removed: Iterable[TopicPartition]
    ) -> None:
        """The group's decision. Positions of the added ones are looked up afterwards."""
        if self.is_manual:
            raise IllegalState("the partitions of this consumer are assigned by hand")
        self._change(added, removed)

    def _change(self, added: Iterable[TopicPartition], removed: Iterable[TopicPartition]) -> None:
        self._catch_up()
        for one in removed:
            state = self.states.pop(one, None)
            if state is not None:
                self._let_go(state)
                state.leave()
        for one in added:
            if one not in self.states:
                self.states[one] = PartitionState(one)
        self.assignment_changed()

    def _refuse_mixing(self, mixed: bool, called: str, before: str) -> None:
        if mixed:
            raise IllegalState(
                f"{called} after {before}: a consumer either subscribes or is assigned partitions; "
                "call unsubscribe() in between"
            )

    # Partitions

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self.states)

    def state(self, partition: TopicPartition) -> PartitionState:
        """Up to date; an error if the partition is not assigned."""
        self._catch_up()
        state = self.states.get(partition)
        if state is None:
            raise IllegalState(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return state

    def chosen(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """The states of these partitions; of all that are assigned, if none is named."""
        named = list(partitions)
        self._catch_up()
        return [self.state(one) for one in named] if named else list(self.states.values())

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(one for one, state in self.states.items() if state.paused)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for one in list(partitions):
            self.state(one).paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for one in list(partitions):
            self.state(one).paused = False

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to hand out; None while it is not known."""
        state = self.state(partition)
        return state.position if state.has_position else None

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        state = self.state(partition)
        self._let_go(state)
        state.seek(offset, leader_epoch)

    def reset(self, partition: TopicPartition, to: int | None = None) -> None:
        """Look up anew where to read: at an end, a time in ms, or as the settings say."""
        state = self.state(partition)
        self._let_go(state)
        state.reset(to)

    # What the application has

    def hand_out(self, state: PartitionState, next_offset: int, leader_epoch: int) -> None:
        """The application gets what lies before `next_offset`."""
        if state not in self._held:
            self._held[state] = state.as_committed()
        state.advance(next_offset, leader_epoch)

    def settle(self) -> None:
        """The application has come back: it is done with what it had in its hands."""
        self._catch_up()
        self.in_hand.record = self.in_hand.state = None
        self._held.clear()

    def consumed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Behind the last record that the application is done with, where positions are known."""
        self._catch_up()
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for one in self.states if partitions is None else partitions:
            state = self.states.get(one)
            if state is not None and state.has_position:
                found[one] = self._consumed(state)
        return found

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Behind the last record handed out, done with or not: what a commit by hand means."""
        self._catch_up()
        return {one: s.as_committed() for one, s in self.states.items() if s.has_position}

    def _let_go(self, state: PartitionState) -> None:
        """What the application has in its hands of this partition no longer tells a position."""
        self._held.pop(state, None)
        if state is self.in_hand.state:
            self.in_hand.record = self.in_hand.state = None

    def _consumed(self, state: PartitionState) -> OffsetAndMetadata:
        if self.done_by is not None and (done := self.done_by(state.partition)) is not None:
            return done
        record = self.in_hand.record
        if record is not None and state is self.in_hand.state:
            return OffsetAndMetadata(record.offset, "", record.leader_epoch)
        held = self._held.get(state)
        return state.as_committed() if held is None else held

    def _catch_up(self) -> None:
        """Iteration notes only the record: one attribute a record, and the rest here."""
        record, state = self.in_hand.record, self.in_hand.state
        if record is not None and state is not None and state.position <= record.offset:
            state.advance(record.offset + 1, record.leader_epoch)


def _nothing() -> None:
    pass
