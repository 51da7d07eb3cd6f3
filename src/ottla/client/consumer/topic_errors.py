"""Topics that a consumer was told to read and cannot: an error, or a word in the log.

A name that no topic can have, or a topic that this client may not see, is an error of the next
call. A topic that is not there may still come, and is waited for; but not in silence, for its name
may as well be wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.network.metadata import ClusterView, Topic
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client")

CREATION_TAKES_S = 2.0
"""Where the broker was asked to create what is missing, it has so long before we complain."""


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
        """After each refresh of the metadata."""
        for name in self._named():
            topic = view.topics.get(name)
            if topic is not None:
                self._look_at(topic)

    def _named(self) -> set[str]:
        read = {one.topic for one in self._subscriptions.states}
        # What a pattern matches is there, or was.
        return (
            read if self._subscriptions.pattern is not None else read | self._subscriptions.topics
        )

    def _look_at(self, topic: Topic) -> None:
        code = ErrorCode.of(topic.error_code)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._note_missing(topic.name)
        elif not code:
            self._missing_since.pop(topic.name, None)
            self._told.discard(topic.name)
        elif not code.retriable:
            self._raise_later(KafkaError(code, f"topic {topic.name!r}: {code.message}"))

    def _note_missing(self, name: str) -> None:
        since = self._missing_since.setdefault(name, self._now())
        if name not in self._told and self._now() - since >= self._patience_s:
            self._told.add(name)
            log.warning(
                "topic %r does not exist (yet); it is read as soon as it does: create it, or check "
                "its name",
                name,
            )
