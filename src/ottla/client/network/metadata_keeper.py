"""Keeps a client's metadata fresh: the topics it watches, and all brokers.

A refresh is due when the last one is too old, when a topic is new, and when a response shows that
the metadata has changed. Many such requests at once make one refresh, and failures are retried with
growing pauses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from ottla.client.network.backoff import Pauses, may_pass
from ottla.client.network.metadata import Broker, ClusterView, Topic, view_of
from ottla.client.settings.common import ClientSettings
from ottla.client.values import TopicPartition
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.runtime import Runtime, Timer

log = logging.getLogger("ottla.client")

CREATION_IS_ASKED_FROM = 4
"""From this version on, Metadata says whether to create topics; older versions create missing
topics if the broker allows it."""

Listener = Callable[[ClusterView], None]


class MetadataKeeper:
    def __init__(
        self,
        runtime: Runtime,
        any_broker: Callable[[], Awaitable[Connection]],
        *,
        start_over: Callable[[], None],
        settings: ClientSettings,
    ) -> None:
        """`start_over` closes all connections before the cluster is bootstrapped again."""
        self.view = ClusterView(None, -1)
        self.failure: Exception | None = None
        """The error of the last background refresh; None if it succeeded."""
        self._runtime = runtime
        self._any_broker = any_broker
        self._start_over = start_over
        self._max_age_s = settings.metadata_max_age_ms / 1000
        self._stale_max_s = settings.metadata_recovery_rebootstrap_trigger_ms / 1000
        self._rebootstraps = settings.metadata_recovery_strategy == "rebootstrap"
        self._pauses = Pauses(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._fresh_at = runtime.clock.now()
        self._watched: dict[str, None] = {}
        self._new: dict[str, None] = {}
        self._watches_all = False
        self._create_missing = False
        self._wanted = False
        self._not_before = 0.0
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None
        self._age_timer: Timer | None = None
        self._wake: asyncio.Event | None = None
        self._closed = False

    # Watching

    def watch(self, topics: Iterable[str], *, create_missing: bool = False) -> None:
        """Keep these topics fresh in `view`. The first response comes soon, see `on_change`."""
        self._create_missing |= create_missing
        for topic in topics:
            if topic not in self._watched:
                self._watched[topic] = None
                self._new[topic] = None
        if self._new:
            self._work_soon()

    def unwatch(self, topics: Iterable[str]) -> None:
        gone = list(topics)
        for topic in gone:
            self._watched.pop(topic, None)
            self._new.pop(topic, None)
        if not self._watches_all:
            self.view = self.view.without(gone)

    def watch_all(self) -> None:
        """Keep all topics of the cluster in `view`, for subscriptions by pattern."""
        if not self._watches_all:
            self._watches_all = True
            self.request_refresh()

    def unwatch_all(self) -> None:
        """Undo `watch_all`. Topics that are watched by name stay watched."""
        self._watches_all = False

    def request_refresh(self) -> None:
        """Refresh all watched topics soon; many calls make one request."""
        self._wanted = True
        self._work_soon()

    def on_change(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` with the view after each refresh. Returns a function that undoes it."""

        self._listeners.append(callback)

        def undo() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return undo

    def leader_changed(
        self,
        partition: TopicPartition,
        leader: int,
        leader_epoch: int,
        endpoints: Iterable[Broker] = (),
    ) -> None:
        """Apply a new leader that a broker named in a response, without a metadata request."""
        view = self.view.with_leader(partition, leader, leader_epoch, endpoints)
        if view is not self.view:
            self.adopt(view)

    def close(self) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        if self._age_timer is not None:
            self._age_timer.cancel()

    # Requests

    async def refresh(
        self, topics: Iterable[str] | None = None, *, create_missing: bool = False
    ) -> ClusterView:
        """Request these topics (None: all) and the brokers, and update `view`."""
        names = None if topics is None else list(topics)
        response = await self._ask(names, create_missing)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._forget_brokers()
            response = await self._ask(names, create_missing)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code))
        answer = view_of(response)
        self._fresh_at = self._runtime.clock.now()
        self.adopt(self.view.merged(answer, complete=names is None))
        return self.view.only(answer.topics)

    async def _ask(self, topics: list[str] | None, create_missing: bool) -> Any:
        from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

        connection = await self._any_broker()
        version = connection.version_of(MetadataRequest)
        wanted = None
        if topics is not None:
            wanted = [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted)
        if version >= CREATION_IS_ASKED_FROM:
            request.allow_auto_topic_creation = create_missing
        return await connection.request(request, version=version)

    def _forget_brokers(self) -> None:
        """Bootstrap again, because all brokers may have been replaced (KIP-1102)."""
        self._fresh_at = self._runtime.clock.now()
        self._start_over()
        self.adopt(replace(self.view, brokers={}, controller_id=-1))

    def adopt(self, view: ClusterView) -> None:
        """Replace the view, and call the listeners."""
        self.view = view
        self._call_listeners()

    def _call_listeners(self) -> None:
        for listener in list(self._listeners):
            try:
                listener(self.view)
            except Exception:
                log.exception("a listener for metadata failed")

    # Background refresh

    def _work_soon(self) -> None:
        if self._closed:
            return
        if self._task is None or self._task.done():
            self._wake = asyncio.Event()
            self._task = asyncio.create_task(self._work(), name="metadata")
        if self._new and self._wake is not None:
            self._wake.set()  # a new topic does not wait for the end of the pause

    async def _work(self) -> None:
        """Refresh until nothing is due any more."""
        assert self._wake is not None
        while (self._wanted or self._new) and not self._closed:
            if not self._new:
                await self._pause(self._wake)
            self._wake.clear()
            await self._attempt()

    async def _pause(self, wake: asyncio.Event) -> None:
        wait_s = self._not_before - self._runtime.clock.now()
        if wait_s > 0:
            try:
                async with asyncio.timeout(wait_s):
                    await wake.wait()
            except TimeoutError:
                pass

    async def _attempt(self) -> None:
        whole, self._wanted = self._wanted, False
        new, self._new = self._new, {}
        topics = self._watched if whole else new
        try:
            await self._refresh_watched(topics)
        except Exception as error:
            self._failed(error)
        else:
            self.failure = None
            self._drop_unwatched(topics)
            self._wanted |= any(map(self._is_unsettled, topics))
            self._refresh_when_old()
        if not self._wanted:
            self._pauses.reset()
        pause_s = self._pauses.next_s(self._runtime.random)
        self._not_before = self._runtime.clock.now() + pause_s

    async def _refresh_watched(self, topics: Iterable[str]) -> None:
        """Refresh topics, then create missing ones: listeners must see that they were missing."""
        names = None if self._watches_all else list(topics)
        found = await self.refresh(names)
        if not self._create_missing:
            return
        missing = [name for name in self._watched if _is_missing(found.topics.get(name))]
        if missing:
            await self.refresh(missing, create_missing=True)

    def _failed(self, error: Exception) -> None:
        log.debug("metadata could not be refreshed: %s", error)
        self.failure = error
        self._wanted = may_pass(error)
        if not self._wanted:
            self._call_listeners()  # waiting callers need not wait until their deadline
        stale_s = self._runtime.clock.now() - self._fresh_at
        if self._rebootstraps and self.view.brokers and stale_s > self._stale_max_s:
            self._forget_brokers()

    def _drop_unwatched(self, asked: Iterable[str]) -> None:
        """Drop topics from the view that were unwatched during the request."""
        gone = [name for name in asked if name not in self._watched]
        if gone and not self._watches_all:
            self.view = self.view.without(gone)

    def _is_unsettled(self, name: str) -> bool:
        topic = self.view.topics.get(name)
        return topic is not None and may_settle(topic)

    def _refresh_when_old(self) -> None:
        if self._age_timer is not None:
            self._age_timer.cancel()
        self._age_timer = self._runtime.call_later(self._max_age_s, self.request_refresh)


def _is_missing(topic: Topic | None) -> bool:
    return topic is not None and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def may_settle(topic: Topic) -> bool:
    """True if a retry soon may return more: for a missing topic or a partition without leader."""
    if topic.error_code:
        return ErrorCode.of(topic.error_code).retriable
    return any(partition.leader < 0 for partition in topic.partitions)
