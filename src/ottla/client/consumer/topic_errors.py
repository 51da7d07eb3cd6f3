"""Reports topics that a consumer should read but cannot: as an error or a warning in the log.

The next call raises if the name is invalid or this client may not see the topic. For a topic that
does not exist the consumer waits, but logs a warning, because its name may be wrong. It also logs
if the broker creates a topic because it was requested.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.network.metadata import ClusterView, Topic
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client")

CREATION_TAKES_S = 2.0
"""How long a broker may take to create a missing topic before the warning."""


class TopicErrors:
    def __init__(
        self,
        subscriptions: Subscriptions,
        now: Callable[[], float],
        raise_later: Callable[[Exception], None],
        *,
        creates: bool,
    ) -> None:
        """`creates`: the broker is asked to create missing topics."""
        self._subscriptions = subscriptions
        self._now = now
        self._raise_later = raise_later
        self._patience_s = CREATION_TAKES_S if creates else 0.0
        self._missing_since: dict[str, float] = {}
        self._told: set[str] = set()

    def look(self, view: ClusterView) -> None:
        """Check the topics after each refresh of the metadata."""
        for name in self._named():
            topic = view.topics.get(name)
            if topic is not None:
                self._look_at(topic)

    def _named(self) -> set[str]:
        read = {one.topic for one in self._subscriptions.states}
        # Topics that match a pattern exist, or did.
        return (
            read if self._subscriptions.pattern is not None else read | self._subscriptions.topics
        )

    def _look_at(self, topic: Topic) -> None:
        code = ErrorCode.of(topic.error_code)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._note_missing(topic.name)
        elif not code:
            self._note_there(topic.name)
        elif not code.retriable:
            self._raise_later(KafkaError(code, f"topic {topic.name!r}: {code.message}"))

    def _note_there(self, name: str) -> None:
        was_missing = self._missing_since.pop(name, None) is not None
        if was_missing and name not in self._told:
            log.warning(
                "topic %r did not exist; it has been created because it was asked for "
                "(allow_auto_create_topics): if that is a surprise, check its name",
                name,
            )
        self._told.discard(name)

    def _note_missing(self, name: str) -> None:
        since = self._missing_since.setdefault(name, self._now())
        if name not in self._told and self._now() - since >= self._patience_s:
            self._told.add(name)
            log.warning(
                "topic %r does not exist (yet); it is read as soon as it does: create it, or check "
                "its name",
                name,
            )
