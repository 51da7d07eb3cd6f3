"""A consumer without group_id: it has no group and commits nothing.

It reads the partitions that were assigned manually, or all partitions of the topics it subscribed
to, including new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.client.consumer.groups.membership import Attention, CommitCallback, Offsets
from ottla.client.consumer.groups.metrics import MembershipMetrics
from ottla.client.consumer.groups.rebalance_listener import Announcer
from ottla.client.consumer.groups.topics import SubscribedTopics
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.errors import IllegalState
from ottla.client.network.cluster import Cluster
from ottla.client.network.metadata import ClusterView
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.counters import MetricRegistry


class Groupless:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        attention: Attention,
        metrics: MetricRegistry,
    ) -> None:
        self.attention = attention
        self.on_commit: Callable[[Offsets], None] = _nothing
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._topics = SubscribedTopics(cluster, settings, subscriptions, self._check_partitions)
        counted = MembershipMetrics(metrics, cluster.runtime.clock, subscriptions)
        self._announcer = Announcer(lambda: subscriptions.listener, counted)

    # Subscription

    def subscription_changed(self) -> None:
        if self._subscriptions.is_subscribed:
            self._topics.follow()
            self._cluster.metadata.request_refresh()
            self._check_partitions(self._cluster.view)
        else:
            self._topics.stop()

    def _check_partitions(self, view: ClusterView) -> None:
        wanted, owned = self._wanted(view), self._subscriptions.assigned
        if wanted - owned or self._unwanted():
            self.attention.request()

    def _wanted(self, view: ClusterView) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition(name, partition.index)
            for name in self._subscriptions.topics
            if (topic := view.topics.get(name)) is not None
            for partition in topic.partitions
        )

    def _unwanted(self) -> frozenset[TopicPartition]:
        """Return partitions outside the subscription. Topics missing from metadata are kept."""
        topics = self._subscriptions.topics
        return frozenset(one for one in self._subscriptions.assigned if one.topic not in topics)

    async def attend(self, deadline: float) -> None:
        self.attention.needed = False
        if not self._subscriptions.is_subscribed:
            return
        if going := self._unwanted():
            await self._announcer.revoked(going)
            self._subscriptions.assign_from_group((), going)
        coming = self._wanted(self._cluster.view) - self._subscriptions.assigned
        if coming:
            self._subscriptions.assign_from_group(coming, ())
            await self._announcer.assigned(coming)
        self._announcer.raise_failure()

    def polled(self) -> None:
        pass

    async def leave(self) -> None:
        self._topics.stop()
        if owned := self._subscriptions.assigned:
            await self._announcer.revoked(owned)

    async def close(self, timeout_ms: int) -> None:
        self._topics.stop()

    # Calls that need a group

    async def commit(self, offsets: Offsets) -> None:
        raise _no_group("commit()")

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None = None) -> None:
        raise _no_group("commit_async()")

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        raise _no_group("committed()")

    def group_metadata(self) -> GroupMetadata:
        raise _no_group("group_metadata()")

    def enforce_rebalance(self, reason: str | None = None) -> None:
        raise _no_group("enforce_rebalance()")


def _no_group(call: str) -> IllegalState:
    return IllegalState(f"{call} needs a group: set group_id")


def _nothing(offsets: Offsets) -> None:
    pass
