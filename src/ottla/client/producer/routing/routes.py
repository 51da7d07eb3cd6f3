"""The topics that a producer sends to, updated from the cluster's metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from ottla.client.errors import TopicMissing
from ottla.client.network.cluster import Cluster
from ottla.client.network.metadata import ClusterView
from ottla.client.producer.arguments import check_topic
from ottla.client.producer.batching.partition_queue import PartitionQueue
from ottla.client.producer.routing.partitioners import partitioner_of
from ottla.client.producer.routing.topic_route import TopicRoute
from ottla.client.settings.producer import ProducerSettings
from ottla.protocol.errors import ErrorCode, KafkaError


class LeaderListener(Protocol):
    def leaders_changed(self, queues: list[PartitionQueue]) -> None: ...

    def is_slow(self, node_id: int) -> bool: ...


class Routes:
    def __init__(self, cluster: Cluster, settings: ProducerSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._partitioner = partitioner_of(settings.partitioner)
        self._listener: LeaderListener | None = None
        self.all: dict[str, TopicRoute] = {}
        """Includes deleted topics: there may be records for them."""
        self.usable: dict[str, TopicRoute] = {}
        self._wanted: set[str] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._stop: Callable[[], None] = cluster.metadata.on_change(self._changed)

    def listen(self, listener: LeaderListener) -> None:
        self._listener = listener

    def close(self) -> None:
        self._stop()
        self._tell_waiters()

    async def find(self, topic: str, partition: int | None, deadline: float) -> TopicRoute:
        """Return the topic once it exists and has the partition.

        Waits for a topic until the deadline. For a partition it refreshes once, because new ones
        are rare and wrong numbers are common.
        """
        check_topic(topic)
        asked_at = None
        while True:
            route = self.usable.get(topic)
            if route is None:
                self._look_for(topic)
                if topic in self.usable:
                    continue
            elif partition is None or 0 <= partition < route.count:
                return route
            elif partition < 0 or (asked_at is not None and self._cluster.view is not asked_at):
                raise TopicMissing(topic, partition)
            elif asked_at is None:
                asked_at = self._cluster.view
                self._cluster.metadata.request_refresh()
            if not await self._news_before(deadline):
                raise self._missing(topic, partition)

    def _look_for(self, topic: str) -> None:
        self._wanted.add(topic)
        self._cluster.metadata.watch(
            [topic], create_missing=self._settings.allow_auto_create_topics
        )
        known = self._cluster.view.topics.get(topic)
        if known is not None and known.error_code:
            code = ErrorCode.of(known.error_code)
            if not code.retriable:
                self._wanted.discard(topic)
                self._cluster.metadata.unwatch([topic])
                raise KafkaError(code, f"topic {topic!r}: {code.message}")
        elif known is not None:
            # Another client of the same cluster already watches it, so there may be no change to
            # see.
            self._changed(self._cluster.view)

    def _missing(self, topic: str, partition: int | None) -> Exception:
        failure = self._cluster.metadata.failure
        if failure is not None:
            return failure.with_traceback(None)
        return TopicMissing(topic, partition if topic in self.usable else None)

    async def _news_before(self, deadline: float) -> bool:
        wait_s = deadline - self._cluster.runtime.clock.now()
        if wait_s <= 0:
            return False
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(wait_s):
                await waiter
        except TimeoutError:
            return False
        return True

    def _changed(self, view: ClusterView) -> None:
        for topic, known in view.topics.items():
            route = self.all.get(topic)
            if route is not None:
                changed = route.update(known)
                if changed and self._listener is not None:
                    self._listener.leaders_changed(changed)
            elif known.partitions and topic in self._wanted:
                self.all[topic] = route = TopicRoute(
                    topic,
                    self._settings,
                    self._partitioner,
                    self._cluster.runtime.random,
                    self._is_slow,
                    known,
                )
            if route is not None and route.count:
                self.usable[topic] = route
            else:
                self.usable.pop(topic, None)
        self._tell_waiters()

    def _is_slow(self, node_id: int) -> bool:
        return self._listener is not None and self._listener.is_slow(node_id)

    def _tell_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
