"""The interface between a group's membership and the protocol that its group speaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ottla.client.consumer.groups.auto_commit import AutoCommit
from ottla.client.consumer.groups.commits import Member
from ottla.client.consumer.groups.handover import Handover
from ottla.client.consumer.groups.membership import Attention
from ottla.client.consumer.groups.metrics import MembershipMetrics
from ottla.client.consumer.groups.polls import PollWatch
from ottla.client.consumer.groups.rebalance_listener import Announcer
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.network.cluster import Cluster
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import GroupMetadata

UNSUBSCRIBED = "the consumer unsubscribed from all topics"


@dataclass(frozen=True, slots=True)
class MemberParts:
    """The parts of a membership that both protocols use."""

    cluster: Cluster
    settings: ConsumerSettings
    group_id: str
    subscriptions: Subscriptions
    attention: Attention
    metrics: MembershipMetrics
    polls: PollWatch
    announcer: Announcer
    auto_commit: AutoCommit
    handover: Handover


class GroupProtocol(Member, Protocol):
    """A member of a group, as one of the two protocols sees it."""

    @property
    def has_lost_partitions(self) -> bool:
        """True if the group may already have given the partitions to other members."""
        ...

    @property
    def may_commit(self) -> bool:
        """True if the group would accept a commit now."""
        ...

    async def take_part(self, deadline: float) -> None:
        """Do the part of `attend` that concerns the group."""
        ...

    async def leave_group(self, reason: str) -> None:
        """Tell the coordinator, if possible. Raises nothing."""
        ...

    def stop(self) -> None:
        """Stop the background tasks, except for commits."""
        ...

    def subscription_changed(self) -> None: ...

    def group_metadata(self) -> GroupMetadata: ...

    def enforce_rebalance(self, reason: str | None = None) -> None: ...
