"""Sticky assignment if all members subscribe to the same topics: all sizes are known in advance.

Each member gets `least` partitions, and `with_one_more` of the members get one more. Members keep
what they had, up to their size. The rest goes to members that have too few, near ones first if
racks matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ottla.client.consumer.assignors.layout import Layout, partitions_of
from ottla.client.consumer.assignors.sticky_claims import Ownership, RackMap
from ottla.client.values import TopicPartition


class EvenAssignment:
    def __init__(self, layout: Layout, ownership: Ownership, racks: RackMap) -> None:
        self._layout = layout
        self._ownership = ownership
        self._racks = racks
        self.given: dict[str, list[TopicPartition]] = {one: [] for one in ownership.owned}
        self.moving: dict[TopicPartition, str] = {}
        """The partitions that had another owner until now, with their new owner."""
        total = sum(len(partitions) for partitions in layout.values())
        self._least, self._with_one_more = divmod(total, len(self.given))
        self._most = self._least + (self._with_one_more > 0)
        self._have_one_more = 0
        self._short: list[str] = []
        """Members with less than `least`."""
        self._level: deque[str] = deque()
        """Members with exactly `least`, some of which will get one more."""
        self._given_up: dict[TopicPartition, str] = {}

    def build(self) -> dict[str, list[TopicPartition]]:
        for member_id in sorted(self.given):
            self._keep(member_id)
        self._level = deque(sorted(self._level))
        kept = {partition for partitions in self.given.values() for partition in partitions}
        everything = partitions_of(self._layout, sorted(self._layout))
        free = [one for one in everything if one not in kept]
        if self._racks:
            # Partitions with the fewest near members go first: later these might be full.
            free = list(self._deal_near(sorted(free, key=self._racks.readers)))
        self._deal(free)
        return self.given

    def _keep(self, member_id: str) -> None:
        """Let a member keep what it had, up to its size, except partitions in far racks."""
        owned = []
        for partition in self._ownership.owned[member_id]:
            if self._racks.is_far(member_id, partition):
                self._given_up[partition] = member_id
            else:
                owned.append(partition)
        owned.sort(key=lambda one: (one.partition, one.topic))
        if len(owned) < self._least:
            self.given[member_id] += owned
            self._short.append(member_id)
            return
        size = self._least
        if self._room_for_one_more() and len(owned) >= self._most:
            size = self._most
            self._count_one_more()
        elif self._room_for_one_more():
            self._level.append(member_id)
        self.given[member_id] += owned[:size]
        self._given_up |= dict.fromkeys(owned[size:], member_id)

    def _room_for_one_more(self) -> bool:
        return self._have_one_more < self._with_one_more

    def _count_one_more(self) -> None:
        self._have_one_more += 1
        if not self._room_for_one_more():
            self._level.clear()

    def _deal_near(self, free: Iterable[TopicPartition]) -> Iterable[TopicPartition]:
        """Give partitions to near members that have room, in turn; yield those that remain."""
        turn = 0
        for partition in free:
            if (position := self._nearest(partition, self._short, turn)) is not None:
                turn = self._give_to_short(partition, position)
            elif (position := self._nearest(partition, self._level, 0)) is not None:
                self._give(partition, self._level[position])
                del self._level[position]
                self._count_one_more()
            else:
                yield partition

    def _nearest(
        self, partition: TopicPartition, members: list[str] | deque[str], first: int
    ) -> int | None:
        """Return the position of the first near member, going round from `first`."""
        for step in range(len(members)):
            position = (first + step) % len(members)
            if self._racks.is_near(members[position], partition):
                return position
        return None

    def _deal(self, free: Iterable[TopicPartition]) -> None:
        turn = 0
        for partition in free:
            if self._short:
                turn = self._give_to_short(partition, turn)
            else:
                self._give(partition, self._level.popleft())

    def _give_to_short(self, partition: TopicPartition, position: int) -> int:
        """Give a partition to a short member, and return the position whose turn is next."""
        member_id = self._short[position]
        self._give(partition, member_id)
        if len(self.given[member_id]) == self._least:
            del self._short[position]
            if self._room_for_one_more():
                self._level.append(member_id)
        else:
            position += 1
        return position % len(self._short) if self._short else 0

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self.given[member_id].append(partition)
        before = self._given_up.get(partition, member_id)
        if before != member_id or partition in self._ownership.contested:
            self.moving[partition] = member_id
