"""Finds the topics of a subscription: its names, or those that match its pattern."""

from __future__ import annotations

import re
from collections.abc import Callable

from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.network.cluster import Cluster
from ottla.client.network.metadata import ClusterView
from ottla.client.settings.consumer import ConsumerSettings


class SubscribedTopics:
    """Updates `subscriptions.topics` by the pattern, and makes the cluster watch the topics."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        changed: Callable[[ClusterView], None],
    ) -> None:
        """`changed` is called after every refresh of the metadata."""
        self._cluster = cluster
        self._settings = settings
        self._subscriptions = subscriptions
        self._changed = changed
        self._undo: Callable[[], None] | None = None
        self._watches_all = False
        self._watched: frozenset[str] = frozenset()

    def follow(self) -> None:
        """Follow the topics of the current subscription."""
        if self._undo is None:
            self._undo = self._cluster.metadata.on_change(self._on_change)
        if self._is_matched_there:
            self._stop_watching_all()
            return
        if self._pattern is not None:
            self._watches_all = True
            self._cluster.metadata.watch_all()
            self._match(self._cluster.view)
            return
        self._stop_watching_all()
        topics = self._subscriptions.topics
        still_read = {one.topic for one in self._subscriptions.states}
        self._cluster.metadata.unwatch(self._watched - topics - still_read)
        self._watched = topics
        self._cluster.metadata.watch(topics, create_missing=self._settings.allow_auto_create_topics)

    def stop(self) -> None:
        self._stop_watching_all()
        if self._undo is not None:
            self._undo()
            self._undo = None

    async def refresh(self) -> None:
        """Refresh metadata before joining: a pattern must be matched at least once."""
        if self._pattern is not None:
            await self._cluster.refresh()

    @property
    def _is_matched_there(self) -> bool:
        """True if the coordinator matches the pattern, so that only it knows the topics."""
        is_text = isinstance(self._subscriptions.pattern, str)
        return is_text and self._settings.group_protocol == "consumer"

    def admits(self, topic: str) -> bool:
        """Return whether the subscription includes this topic, even if this consumer has no
        metadata of it."""
        pattern = self._pattern
        if pattern is not None:
            return pattern.fullmatch(topic) is not None
        return topic in self._subscriptions.topics

    @property
    def _pattern(self) -> re.Pattern[str] | None:
        pattern = self._subscriptions.pattern
        if self._is_matched_there:
            return None
        return re.compile(pattern) if isinstance(pattern, str) else pattern

    def _stop_watching_all(self) -> None:
        if self._watches_all:
            self._watches_all = False
            self._cluster.metadata.unwatch_all()

    def _on_change(self, view: ClusterView) -> None:
        self._match(view)
        self._changed(view)

    def _match(self, view: ClusterView) -> None:
        pattern = self._pattern
        if pattern is None:
            return
        self._subscriptions.matched(
            topic.name
            for topic in view.topics.values()
            if not topic.error_code
            and not (topic.internal and self._settings.exclude_internal_topics)
            and pattern.fullmatch(topic.name)
        )
