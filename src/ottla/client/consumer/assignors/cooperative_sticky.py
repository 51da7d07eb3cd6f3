"""`cooperative-sticky`: assigns like `sticky`, while members keep their partitions.

A partition that changes its owner is first assigned to nobody. Its old owner gives it up and
rejoins, and that second rebalance assigns it to the new owner, so it never has two owners.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    RebalanceProtocol,
    Subscription,
)
from ottla.client.consumer.assignors.sticky import Given, assign_sticky
from ottla.client.consumer.assignors.sticky_claims import Claim
from ottla.client.consumer.assignors.user_data import read_generation, write_generation
from ottla.client.network.metadata import ClusterView
from ottla.client.values import GroupMetadata, TopicPartition


class CooperativeStickyAssignor:
    name = "cooperative-sticky"
    protocols: Collection[RebalanceProtocol] = (
        RebalanceProtocol.COOPERATIVE,
        RebalanceProtocol.EAGER,
    )

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def subscription_userdata(
        self, topics: frozenset[str], owned: Collection[TopicPartition]
    ) -> bytes | None:
        return write_generation(self._generation)

    def assign(
        self, view: ClusterView, members: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        claims = {member_id: self._claim(one) for member_id, one in members.items()}
        given, moving = assign_sticky(view, members, claims)
        if moving is None:
            moving = _changing_owners(members, given)
        return {
            member_id: Assignment([one for one in partitions if moving.get(one) != member_id])
            for member_id, partitions in given.items()
        }

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        self._generation = metadata.generation_id

    @staticmethod
    def _claim(member: Subscription) -> Claim:
        owned = tuple(member.owned)
        if member.generation >= 0:
            return Claim(owned, member.generation)
        # Members with a subscription older than version 2 send the generation only in user data.
        if member.user_data is None:
            return Claim(owned, None)
        return Claim(owned, read_generation(member.user_data))


def _changing_owners(
    members: Mapping[str, Subscription], given: Given
) -> dict[TopicPartition, str]:
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member_id, partitions in given.items():
        owned = frozenset(members[member_id].owned)
        added |= dict.fromkeys((one for one in partitions if one not in owned), member_id)
        revoked |= owned.difference(partitions)
    return {partition: to for partition, to in added.items() if partition in revoked}
