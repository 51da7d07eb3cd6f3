"""The leader of a classic group: assigns partitions to all members, and watches for changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.client.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    RebalanceProtocol,
    Subscription,
)
from ottla.client.consumer.assignors.consumer_protocol import read_subscription, write_assignment
from ottla.client.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.errors import IllegalState
from ottla.client.network.cluster import Cluster
from ottla.client.network.metadata import ClusterView
from ottla.client.values import TopicPartition

log = logging.getLogger("ottla.client.group")

Snapshot = dict[str, tuple[frozenset[str | None], ...]]


class Leader:
    def __init__(self, cluster: Cluster, subscriptions: Subscriptions, *, by_rack: bool) -> None:
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._by_rack = by_rack
        self._topics: frozenset[str] = frozenset()
        self._assigned_on: Snapshot | None = None

    async def assign(
        self,
        assignor: Assignor,
        protocol: RebalanceProtocol,
        packed: Mapping[str, tuple[bytes, str | None]],
        *,
        skip: bool,
    ) -> dict[str, bytes]:
        """Return the encoded assignment of each member. With `skip` the members keep their current
        one: a static leader has rejoined."""
        members = {
            member_id: read_subscription(metadata, instance_id)
            for member_id, (metadata, instance_id) in packed.items()
        }
        await self._watch({topic for one in members.values() for topic in one.topics})
        if skip:
            self._assigned_on = self._snapshot(self._cluster.view)
            return {}
        view = self._cluster.view
        assignments = assignor.assign(view, members)
        if protocol is RebalanceProtocol.COOPERATIVE and assignor.name != _CHECKS_ITSELF:
            refuse_moving(assignor.name, members, assignments)
        self._assigned_on = self._snapshot(view)
        log.debug("assignor %s assigned: %s", assignor.name, assignments)
        return {member_id: write_assignment(one) for member_id, one in assignments.items()}

    async def _watch(self, topics: set[str]) -> None:
        """Watch the topics of all members, and refresh them so that no partition is missed."""
        self._unwatch(self._topics - topics)
        self._topics = frozenset(topics)
        self._cluster.metadata.watch(topics)
        await self._cluster.refresh(sorted(topics))

    def _unwatch(self, topics: frozenset[str]) -> None:
        self._cluster.metadata.unwatch(topics - self._subscriptions.topics)

    def resign(self) -> None:
        """Stop watching topics: another member leads, or will."""
        self._unwatch(self._topics)
        self._topics = frozenset()
        self._assigned_on = None

    def is_outdated(self, view: ClusterView) -> bool:
        """True if the partitions have changed since the assignment."""
        return self._assigned_on is not None and self._assigned_on != self._snapshot(view)

    def _snapshot(self, view: ClusterView) -> Snapshot:
        found: Snapshot = {}
        for name in self._topics:
            topic = view.topics.get(name)
            if topic is not None and topic.partitions:
                found[name] = tuple(
                    self._racks(view, partition.replicas) for partition in topic.partitions
                )
        return found

    def _racks(self, view: ClusterView, replicas: tuple[int, ...]) -> frozenset[str | None]:
        """Return the racks of the replicas. They matter only if members name their racks."""
        if not self._by_rack:
            return frozenset()
        return frozenset(view.brokers[one].rack for one in replicas if one in view.brokers)


_CHECKS_ITSELF = CooperativeStickyAssignor.name


def refuse_moving(
    name: str, members: Mapping[str, Subscription], assignments: Mapping[str, Assignment]
) -> None:
    """Raise if a partition goes to a new owner before the old one has given it up."""
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member_id, assignment in assignments.items():
        owned = set(members[member_id].owned)
        added |= set(assignment.partitions) - owned
        revoked |= owned.difference(assignment.partitions)
    if moved := sorted(added & revoked):
        raise IllegalState(
            f"assignor {name!r} says it is cooperative, but gives {moved[0]} to a new owner while "
            "the old one still has it: leave such partitions out until the next rebalance"
        )
