"""Finds the previous owner of each partition from the members' claims, also if they conflict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.consumer.assignors.assignor import NO_GENERATION, Subscription
from ottla.client.consumer.assignors.layout import Layout, Racks, member_racks, racks_matter
from ottla.client.values import TopicPartition


class Claim(NamedTuple):
    partitions: tuple[TopicPartition, ...]
    generation: int | None
    """None if the member does not tell the generation in which it got them."""

    @property
    def known_generation(self) -> int:
        return NO_GENERATION if self.generation is None else self.generation


@dataclass(slots=True)
class Ownership:
    """The partitions that each member owned; a partition has at most one owner."""

    owned: dict[str, dict[TopicPartition, None]]
    contested: set[TopicPartition] = field(default_factory=set)
    """Partitions claimed by several members in the same generation: they have no owner."""


def settle(claims: Mapping[str, Claim], layout: Layout) -> Ownership:
    """Give each partition to one claimant; if two claim it, to the one with the newer
    generation."""
    result = Ownership({member_id: {} for member_id in claims})
    owner: dict[TopicPartition, str] = {}
    for member_id in sorted(claims):
        for partition in dict.fromkeys(claims[member_id].partitions):
            if partition.partition < len(layout.get(partition.topic, ())):
                _settle_one(partition, member_id, owner, claims, result)
    return result


def _settle_one(
    partition: TopicPartition,
    member_id: str,
    owner: dict[TopicPartition, str],
    claims: Mapping[str, Claim],
    result: Ownership,
) -> None:
    generation = claims[member_id].known_generation
    other = owner.get(partition)
    if other is not None:
        if generation < claims[other].known_generation:
            return
        result.owned[other].pop(partition, None)
    owner[partition] = member_id
    if other is not None and generation == claims[other].known_generation:
        result.contested.add(partition)
    else:
        result.contested.discard(partition)
        result.owned[member_id][partition] = None


def outdated(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Return the owner of each partition in the latest generation before the newest one."""
    newest = max((claim.known_generation for claim in claims.values()), default=NO_GENERATION)
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member_id in sorted(claims):
        generation = claims[member_id].known_generation
        if generation >= newest:
            continue
        for partition in claims[member_id].partitions:
            if partition not in found or generation > found[partition][0]:
                found[partition] = generation, member_id
    return {partition: member_id for partition, (_, member_id) in found.items()}


class RackMap:
    """The racks of members and partitions; empty if racks make no difference."""

    def __init__(self, layout: Layout, members: Mapping[str, Subscription]) -> None:
        racks = member_racks(members)
        everywhere = [one for partitions in layout.values() for one in partitions]
        matter = racks_matter(set(racks.values()), everywhere)
        self.of_member = racks if matter else {}
        self._layout = layout

    def __bool__(self) -> bool:
        return bool(self.of_member)

    def of(self, partition: TopicPartition) -> Racks:
        return self._layout[partition.topic][partition.partition]

    def is_far(self, member_id: str, partition: TopicPartition) -> bool:
        rack = self.of_member.get(member_id)
        return rack is not None and rack not in self.of(partition)

    def is_near(self, member_id: str, partition: TopicPartition) -> bool:
        """True if the member's rack is known and has a replica. Stricter than `not is_far`."""
        rack = self.of_member.get(member_id)
        return rack is not None and rack in self.of(partition)

    def readers(self, partition: TopicPartition) -> int:
        """Return the number of members that are near."""
        return sum(self.is_near(member_id, partition) for member_id in self.of_member)
