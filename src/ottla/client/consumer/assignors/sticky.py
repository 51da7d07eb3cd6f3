"""`sticky`: as even as possible, while as many partitions as possible keep their owner.

Members send their previous partitions and generation to the leader in user data, because with the
eager protocol they own nothing when they join.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    RebalanceProtocol,
    Subscription,
)
from ottla.client.consumer.assignors.layout import layout_of
from ottla.client.consumer.assignors.sticky_claims import Claim, RackMap, outdated, settle
from ottla.client.consumer.assignors.sticky_even import EvenAssignment
from ottla.client.consumer.assignors.sticky_general import GeneralAssignment
from ottla.client.consumer.assignors.user_data import read_previous, write_previous
from ottla.client.network.metadata import ClusterView
from ottla.client.values import GroupMetadata, TopicPartition

Given = dict[str, list[TopicPartition]]


def assign_sticky(
    view: ClusterView, members: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> tuple[Given, dict[TopicPartition, str] | None]:
    """Return the partitions of each member and, if the algorithm yields them, the new owners of
    the partitions that move."""
    layout = layout_of(view, members)
    ownership = settle(claims, layout)
    racks = RackMap(layout, members)
    if len({frozenset(one.topics) for one in members.values()}) == 1:
        even = EvenAssignment(layout, ownership, racks)
        return even.build(), even.moving
    general = GeneralAssignment(layout, members, ownership, outdated(claims), racks)
    return general.build(), None


class StickyAssignor:
    name = "sticky"
    protocols: Collection[RebalanceProtocol] = (RebalanceProtocol.EAGER,)

    def __init__(self) -> None:
        self._previous: Claim | None = None

    def subscription_userdata(
        self, topics: frozenset[str], owned: Collection[TopicPartition]
    ) -> bytes | None:
        return None if self._previous is None else write_previous(self._previous)

    def assign(
        self, view: ClusterView, members: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        claims = {member_id: self._claim(one) for member_id, one in members.items()}
        given, _ = assign_sticky(view, members, claims)
        return {member_id: Assignment(partitions) for member_id, partitions in given.items()}

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        self._previous = Claim(tuple(assignment.partitions), metadata.generation_id)

    @staticmethod
    def _claim(member: Subscription) -> Claim:
        if not member.user_data:
            return Claim((), None)
        # Unreadable user data is ignored: the group goes on, only less sticky.
        return read_previous(member.user_data) or Claim((), NO_GENERATION)
