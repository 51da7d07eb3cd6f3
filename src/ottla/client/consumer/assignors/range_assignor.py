"""`range`: assigns each topic separately, in blocks of neighbouring partitions.

Members with the same subscription get the same partition numbers of every topic, so topics with the
same partitioning can be joined. If racks matter (KIP-881), members first get partitions of their
own rack, with the same numbers for topics of the same size; blocks fill the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.client.consumer.assignors.assignor import Assignment, StatelessAssignor, Subscription
from ottla.client.consumer.assignors.layout import (
    Racks,
    in_order,
    layout_of,
    member_racks,
    racks_matter,
)
from ottla.client.network.metadata import ClusterView
from ottla.client.values import TopicPartition


class RangeAssignor(StatelessAssignor):
    name = "range"

    def assign(
        self, view: ClusterView, members: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        order = in_order(members)
        racks = member_racks(members)
        shares = [
            _Shares(
                topic,
                partitions,
                {one: racks.get(one) for one in order if topic in members[one].topics},
            )
            for topic, partitions in layout_of(view, members).items()
        ]
        if any(share.racks_matter for share in shares):
            _fill_by_rack(shares)
        for share in shares:
            share.fill()
        given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        for share in shares:
            for index, member_id in sorted(share.owner.items()):
                given[member_id].append(TopicPartition(share.topic, index))
        return {member_id: Assignment(partitions) for member_id, partitions in given.items()}


class _Shares:
    """The assignment of one topic under construction."""

    def __init__(
        self, topic: str, partitions: Sequence[Racks], members: Mapping[str, str | None]
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.members = members
        """In order, with their racks."""
        self.owner: dict[int, str] = {}
        self._count = dict.fromkeys(members, 0)
        self._each, self._extra = divmod(len(partitions), len(members))
        self.racks_matter = racks_matter(self._known_racks(), partitions)

    def _known_racks(self) -> set[str]:
        return {rack for rack in self.members.values() if rack is not None}

    @property
    def names_racks(self) -> bool:
        return bool(self._known_racks())

    def is_near(self, member_id: str, index: int) -> bool:
        rack = self.members[member_id]
        return rack is None or rack in self.partitions[index]

    def room(self, member_id: str) -> int:
        return max(0, self._each + (self._extra > 0) - self._count[member_id])

    def give(self, member_id: str, indexes: Iterable[int]) -> None:
        for index in indexes:
            self.owner[index] = member_id
            self._count[member_id] += 1
        if self._count[member_id] > self._each:
            self._extra -= 1

    def fill(self, *, near: bool = False) -> None:
        for member_id in self.members:
            free = (
                index
                for index in range(len(self.partitions))
                if index not in self.owner and (not near or self.is_near(member_id, index))
            )
            chosen = [index for index, _ in zip(free, range(self.room(member_id)), strict=False)]
            if chosen:
                self.give(member_id, chosen)


def _fill_by_rack(shares: Iterable[_Shares]) -> None:
    alike: dict[tuple[object, ...], list[_Shares]] = {}
    for share in shares:
        alike.setdefault((len(share.partitions), *share.members), []).append(share)
    for group in alike.values():
        if len(group) > 1:
            _fill_together(group)
        elif group[0].racks_matter:
            group[0].fill(near=True)


def _fill_together(shares: Sequence[_Shares]) -> None:
    """Give each partition number to one member in all topics: they have the same members and the
    same number of partitions."""
    first = shares[0]
    if not first.names_racks:
        return
    for index in range(len(first.partitions)):
        for member_id in first.members:
            if all(one.room(member_id) and one.is_near(member_id, index) for one in shares):
                for one in shares:
                    one.give(member_id, [index])
                break
