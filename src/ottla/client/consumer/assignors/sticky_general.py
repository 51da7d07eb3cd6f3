"""Sticky assignment if members subscribe to different topics.

First, members keep what they had and may keep. Then free partitions go to the members with the
fewest. Then partitions move from members with many to members with few while that makes the
assignment more even. If the result is not more even than before, it is undone: moving has a cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.client.consumer.assignors.assignor import Subscription
from ottla.client.consumer.assignors.layout import Layout, partitions_of
from ottla.client.consumer.assignors.sticky_claims import Ownership, RackMap
from ottla.client.values import TopicPartition

Given = dict[str, dict[TopicPartition, None]]


class GeneralAssignment:
    def __init__(
        self,
        layout: Layout,
        members: Mapping[str, Subscription],
        ownership: Ownership,
        before: Mapping[TopicPartition, str],
        racks: RackMap,
    ) -> None:
        self._before = before
        """The owner of a partition in an older generation: it moves back there if possible."""
        self._racks = racks
        self._subscribers: dict[str, list[str]] = {topic: [] for topic in layout}
        self._possible = dict.fromkeys(members, 0)
        """How many partitions a member could have at most."""
        for member_id in sorted(members):
            for topic in frozenset(members[member_id].topics) & layout.keys():
                self._subscribers[topic].append(member_id)
                self._possible[member_id] += len(layout[topic])
        self._given: Given = {member_id: {} for member_id in members}
        self._owner: dict[TopicPartition, str] = {}
        self._moves = _Moves()
        # Topics with the fewest subscribers come first: later these members might be full.
        topics = sorted(layout, key=lambda topic: (len(self._subscribers[topic]), topic))
        self._partitions = partitions_of(layout, topics)
        self._must_revoke = self._keep(ownership)

    def build(self) -> dict[str, list[TopicPartition]]:
        began_empty = not any(self._given.values())
        free = [one for one in self._partitions if one not in self._owner]
        self._place(free)
        movable = [one for one in self._partitions if self._is_shared(one.topic)]
        placed = {member_id: dict(own) for member_id, own in self._given.items()}
        if not self._must_revoke:
            # Moving only the newly placed partitions may be enough.
            self._even_out([one for one in free if self._is_shared(one.topic)])
        if self._even_out(movable) and not began_empty:
            self._undo_unless_better(placed)
        return {member_id: list(own) for member_id, own in self._given.items()}

    def _keep(self, ownership: Ownership) -> bool:
        """Let members keep what they may, and return whether some partition must be revoked."""
        must_revoke = False
        for member_id, owned in ownership.owned.items():
            for partition in owned:
                wanted = member_id in self._subscribers[partition.topic]
                if wanted and not self._racks.is_far(member_id, partition):
                    self._give(partition, member_id)
                else:
                    must_revoke = True
        return must_revoke

    def _is_shared(self, topic: str) -> bool:
        return len(self._subscribers[topic]) > 1

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self._given[member_id][partition] = None
        self._owner[partition] = member_id

    def _size(self, member_id: str) -> int:
        return len(self._given[member_id])

    def _least_loaded(self, members: Iterable[str]) -> str | None:
        return min(members, key=lambda one: (self._size(one), one), default=None)

    def _place(self, free: Sequence[TopicPartition]) -> None:
        far = free
        if self._racks:
            far = [one for one in free if not self._placed(one, near=True)]
        for partition in far:
            self._placed(partition, near=False)

    def _placed(self, partition: TopicPartition, *, near: bool) -> bool:
        chosen = self._least_loaded(
            one
            for one in self._subscribers[partition.topic]
            if not near or not self._racks.is_far(one, partition)
        )
        if chosen is not None:
            self._give(partition, chosen)
        return chosen is not None

    def _even_out(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions until nothing improves, and return whether any moved."""
        moved_any = False
        # A move narrows a gap of two or more. The bound stops loops caused by contradictory claims.
        for _ in range(len(partitions) + 1):
            moved = sum([self._move_if_better(one) for one in partitions])
            moved_any = moved_any or moved > 0
            if not moved:
                break
        return moved_any

    def _move_if_better(self, partition: TopicPartition) -> bool:
        subscribers = self._subscribers[partition.topic]
        size = self._size(self._owner[partition])
        before = self._before.get(partition)
        if before in subscribers and size > self._size(before) + 1:
            self._move(partition, before)
            return True
        least = self._least_loaded(subscribers)
        if least is not None and size > self._size(least) + 1:
            self._move(partition, least)
            return True
        return False

    def _move(self, partition: TopicPartition, to: str) -> None:
        actual = self._moves.instead_of(partition, self._owner[partition], to)
        source = self._owner[actual]
        self._moves.moved(actual, source, to)
        del self._given[source][actual]
        self._give(actual, to)

    def _undo_unless_better(self, placed: Given) -> None:
        changeable = [member_id for member_id in placed if self._may_change(placed, member_id)]
        if _unevenness(self._given, changeable) >= _unevenness(placed, changeable):
            self._given = placed

    def _may_change(self, given: Given, member_id: str) -> bool:
        """False for a member that has all it may have, and nothing that others could take."""
        if any(self._is_shared(one.topic) for one in given[member_id]):
            return True
        return len(given[member_id]) < self._possible[member_id]


def _unevenness(given: Given, members: Iterable[str]) -> int:
    """Return the sum of the differences in size between all pairs of members."""
    sizes = sorted(len(given[member_id]) for member_id in members)
    return sum(size * (2 * rank - len(sizes) + 1) for rank, size in enumerate(sizes))


class _Moves:
    """The moves so far, so that two partitions of a topic do not just swap their owners."""

    def __init__(self) -> None:
        self._way: dict[TopicPartition, tuple[str, str]] = {}
        self._by_way: dict[tuple[str, str, str], dict[TopicPartition, None]] = {}

    def moved(self, partition: TopicPartition, source: str, to: str) -> None:
        first = source
        if partition in self._way:
            first, previous = self._way.pop(partition)
            del self._by_way[partition.topic, first, previous][partition]
        if first != to:
            self._way[partition] = first, to
            self._by_way.setdefault((partition.topic, first, to), {})[partition] = None

    def instead_of(self, partition: TopicPartition, source: str, to: str) -> TopicPartition:
        """Return the partition to move: if one moved the opposite way, it moves back, rather than a
        second one moving."""
        first = self._way[partition][0] if partition in self._way else source
        return next(iter(self._by_way.get((partition.topic, to, first), ())), partition)
