"""What an assignor is. One member of a classic group, its leader, runs it for all.

An object of your own may stand in `partition_assignment_strategy` beside the names of Kafka's four:
every member of the group must then have it under the same name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from ottla.client.network.metadata import ClusterView
from ottla.client.values import GroupMetadata, TopicPartition

NO_GENERATION = -1


class RebalanceProtocol(IntEnum):
    """What members do with their partitions while the group is sharing them out anew."""

    EAGER = 0
    """All are given up before joining, and given out again afterwards."""
    COOPERATIVE = 1
    """All are kept; what moves is given up first, and a second round gives it to its new owner."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member tells the leader about itself."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION
    """The generation in which it got `owned`."""
    rack: str | None = None
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    partitions: Sequence[TopicPartition]
    user_data: bytes | None = None


class Assignor(Protocol):
    @property
    def name(self) -> str:
        """By which the members of a group know that they mean the same one."""
        ...

    @property
    def protocols(self) -> Collection[RebalanceProtocol]:
        """COOPERATIVE only if `assign` never gives away a partition that somebody still owns."""
        ...

    def subscription_userdata(
        self, topics: frozenset[str], owned: Collection[TopicPartition]
    ) -> bytes | None:
        """What its counterpart in the leader needs to know of this member."""
        ...

    def assign(
        self, view: ClusterView, members: Mapping[str, Subscription]
    ) -> Mapping[str, Assignment]:
        """In the leader: an assignment for each member id; the view knows all subscribed topics."""
        ...

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        """In every member, when it has got its own."""
        ...


class StatelessAssignor:
    """The part that is the same for assignors that remember nothing."""

    protocols: Collection[RebalanceProtocol] = (RebalanceProtocol.EAGER,)

    def subscription_userdata(
        self, topics: frozenset[str], owned: Collection[TopicPartition]
    ) -> bytes | None:
        return None

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        pass
