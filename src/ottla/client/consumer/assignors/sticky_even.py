"""Sticky assignment where all members want the same topics: every size is known beforehand.

Each member is to have `least` partitions, and so many of them (`with_one_more`) one more. Members
keep what they had up to their size; the rest is dealt out to whoever is short of it, near ones
first where racks matter.
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
        """What had another owner until now, and its new one."""
        total = sum(len(partitions) for partitions in layout.values())
        self._least, self._with_one_more = divmod(total, len(self.given))
        self._most = self._least + (self._with_one_more > 0)
        self._have_one_more = 0
        self._short: list[str] = []
        """Members with less than `least`."""
        self._level: deque[str] = deque()
        """Members with exactly `least`, of which some will get one more."""
        self._given_up: dict[TopicPartition, str] = {}

    def build(self) -> dict[str, list[TopicPartition]]:
        for member_id in sorted(self.given):
            self._keep(member_id)
        self._level = deque(sorted(self._level))
        kept = {partition for partitions in self.given.values() for partition in partitions}
        everything = partitions_of(self._layout, sorted(self._layout))
        free = [one for one in everything if one not in kept]
        if self._racks:
            # The fewer members are near, the sooner: later nobody near might have room.
            free = list(self._deal_near(sorted(free, key=self._racks.readers)))
        self._deal(free)
        return self.given

    def _keep(self, member_id: str) -> None:
        """What it had and may keep, up to its size."""
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
            self._got_one_more()
        elif self._room_for_one_more():
            self._level.append(member_id)
        self.given[member_id] += owned[:size]
        self._given_up |= dict.fromkeys(owned[size:], member_id)

    def _room_for_one_more(self) -> bool:
        return self._have_one_more < self._with_one_more

    def _got_one_more(self) -> None:
        self._have_one_more += 1
        if not self._room_for_one_more():
            self._level.clear()

    def _deal_near(self, free: Iterable[TopicPartition]) -> Iterable[TopicPartition]:
        """To near members with room, in turn; yields what could not be placed so."""
        turn = 0
        for partition in free:
            if (position := self._nearest(partition, self._short, turn)) is not None:
                turn = self._give_to_short(partition, position)
            elif (position := self._nearest(partition, self._level, 0)) is not None:
                self._give(partition, self._level[position])
                del self._level[position]
                self._got_one_more()
            else:
                yield partition

    def _nearest(
        self, partition: TopicPartition, members: list[str] | deque[str], first: int
    ) -> int | None:
        """The position of the first near member, looking around from `first` on."""
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
        """Returns whose turn is next."""
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
