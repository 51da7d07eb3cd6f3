"""The state of what a consumer reads: its topics or partitions, and the position in each partition.

A consumer either subscribes (to names or to a pattern; the group then assigns partitions) or is
assigned partitions manually. The two exclude each other until `unsubscribe`.

A partition has three offsets that must not be mixed up:

    consumed   everything before it is finished and may be committed
    position   the next record to deliver
    fetched    the next record to fetch; the records from position to here are in the buffer

A record counts as consumed when the application asks for more: until then the application may fail
on it, and it must be delivered again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from re import Pattern
from typing import TYPE_CHECKING

from ottla.client.consumer.arguments import partitions as as_partitions
from ottla.client.consumer.arguments import topic_names
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.errors import IllegalState
from ottla.client.values import AnyRecord, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer.delivery.delivery import Chunk
    from ottla.client.consumer.groups.rebalance_listener import RebalanceListener


class InHand:
    """The chunk that iteration delivers record by record, and the record that the application
    processes now."""

    __slots__ = ("chunk", "record", "rest", "state")

    def __init__(self) -> None:
        self.record: AnyRecord | None = None
        self.state: PartitionState | None = None
        self.chunk: Chunk | None = None
        self.rest: Iterator[AnyRecord] = iter(())
        """The records of the chunk that are not delivered yet."""

    def drop_chunk(self) -> None:
        """Drop the rest of the chunk, so that iteration continues from the positions."""
        self.chunk = None
        self.rest = iter(())


class Subscriptions:
    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        """The subscribed topics; for a pattern, the topics that match it now."""
        self.pattern: Pattern[str] | str | None = None
        """A plain string is matched by the coordinator (the new protocol)."""
        self.is_manual = False
        self.listener: RebalanceListener | None = None
        self.states: dict[TopicPartition, PartitionState] = {}
        self.assignment_changed: Callable[[], None] = _nothing
        """Called after partitions were assigned or revoked."""
        self.done_by: Callable[[TopicPartition], OffsetAndMetadata | None] | None = None
        """Returns the consumed offset of a partition whose records are processed in parallel."""
        self.in_hand = InHand()
        self._held: dict[PartitionState, OffsetAndMetadata] = {}
        # Positions before the records that the application holds.

    # Subscription and assignment

    @property
    def is_subscribed(self) -> bool:
        """True if the group decides which partitions are read here."""
        return bool(self.topics) or self.pattern is not None

    @property
    def is_empty(self) -> bool:
        """True if nothing is subscribed or assigned."""
        return not (self.is_subscribed or self.is_manual)

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        pattern: Pattern[str] | str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Replace the subscription. The partitions stay until the group has assigned new ones."""
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
        """Set the topics that match the pattern now, and return whether they changed."""
        names = frozenset(topics)
        changed = names != self.topics
        self.topics = names
        return changed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that were already assigned keep their positions."""
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
        """Apply the group's assignment. Positions of added partitions are looked up afterwards."""
        if self.is_manual:
            raise IllegalState("the partitions of this consumer are assigned by hand")
        self._change(added, removed)

    def _change(self, added: Iterable[TopicPartition], removed: Iterable[TopicPartition]) -> None:
        self._catch_up()
        for one in removed:
            state = self.states.pop(one, None)
            if state is not None:
                self._forget_held(state)
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
        """Return the up-to-date state of a partition. Raises if it is not assigned."""
        self._catch_up()
        state = self.states.get(partition)
        if state is None:
            raise IllegalState(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return state

    def chosen(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Return the states of these partitions; without any, of all that are assigned."""
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
        """Return the offset of the next record to deliver; None while it is unknown."""
        state = self.state(partition)
        return state.position if state.has_position else None

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        state = self.state(partition)
        self._forget_held(state)
        state.seek(offset, leader_epoch)

    def reset(self, partition: TopicPartition, to: int | None = None) -> None:
        """Look up a new position: at an end, a timestamp in ms, or as the settings say (None)."""
        state = self.state(partition)
        self._forget_held(state)
        state.reset(to)

    # Delivered and consumed records

    def hand_out(self, state: PartitionState, next_offset: int, leader_epoch: int) -> None:
        """Note that the records before `next_offset` are delivered."""
        if state not in self._held:
            self._held[state] = state.as_committed()
        state.advance(next_offset, leader_epoch)

    def settle(self) -> None:
        """Note that the application asks for more: the records it held are consumed."""
        self._catch_up()
        self.in_hand.record = self.in_hand.state = None
        self._held.clear()

    def consumed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offset after the last consumed record of each partition with a position."""
        self._catch_up()
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for one in self.states if partitions is None else partitions:
            state = self.states.get(one)
            if state is not None and state.has_position:
                found[one] = self._consumed(state)
        return found

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offset after the last delivered record, which a manual commit uses."""
        self._catch_up()
        return {one: s.as_committed() for one, s in self.states.items() if s.has_position}

    def _forget_held(self, state: PartitionState) -> None:
        """Forget the records of this partition that the application holds: they no longer count for
        its position."""
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
        """Advance the position past the last record: iteration itself only stores the record."""
        record, state = self.in_hand.record, self.in_hand.state
        if record is not None and state is not None and state.position <= record.offset:
            state.advance(record.offset + 1, record.leader_epoch)


def _nothing() -> None:
    pass
