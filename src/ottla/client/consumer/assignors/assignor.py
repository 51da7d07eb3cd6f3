"""The interface of an assignor, which the leader of a classic group runs for all members.

`partition_assignment_strategy` takes assignors of your own beside the names of Kafka's four. Every
member of the group must then have it under the same name.
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
    """How members treat their partitions during a rebalance."""

    EAGER = 0
    """Members give up all partitions before they join, and get new ones afterwards."""
    COOPERATIVE = 1
    """Members keep their partitions. A partition that moves is revoked first, and a second
    rebalance gives it to its new owner."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The metadata that a member sends to the leader."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION
    """The generation in which the member got `owned`."""
    rack: str | None = None
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    partitions: Sequence[TopicPartition]
    user_data: bytes | None = None


class Assignor(Protocol):
    @property
    def name(self) -> str:
        """The name by which the members of a group identify the assignor."""
        ...

    @property
    def protocols(self) -> Collection[RebalanceProtocol]:
        """COOPERATIVE only if `assign` never gives away a partition that is still owned."""
        ...

    def subscription_userdata(
        self, topics: frozenset[str], owned: Collection[TopicPartition]
    ) -> bytes | None:
        """Return what the leader's assignor needs to know about this member."""
        ...

    def assign(
        self, view: ClusterView, members: Mapping[str, Subscription]
    ) -> Mapping[str, Assignment]:
        """Return an assignment for each member. Runs in the leader; `view` has all their topics."""
        ...

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        """Take note of this member's own assignment. Runs in every member."""
        ...


class StatelessAssignor:
    """Base of assignors that keep no state."""

    protocols: Collection[RebalanceProtocol] = (RebalanceProtocol.EAGER,)

    def subscription_userdata(
        self, topics: frozenset[str], owned: Collection[TopicPartition]
    ) -> bytes | None:
        return None

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        pass
