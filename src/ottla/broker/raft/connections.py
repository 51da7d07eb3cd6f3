"""Requests in flight: one per destination, with a timeout, and a pause after a failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from ottla.broker.raft.ids import Node
from ottla.broker.raft.settings import RaftSettings
from ottla.protocol.schema import Message


@dataclass(slots=True)
class Sent:
    destination: Node
    message: Message
    expires_at_ms: int


class Connections:
    """Matches responses by correlation id. A response that is no longer awaited is ignored: after a
    transition all requests in flight belong to an earlier state."""

    def __init__(self, settings: RaftSettings, random: Random) -> None:
        self._settings = settings
        self._random = random
        self._last_id = 0
        self._sent: dict[int, Sent] = {}
        self._resting: dict[int, int] = {}
        """Node id -> when it may be asked again."""

    def sent(self, destination: Node, message: Message, now_ms: int) -> int:
        """Remember the request and return its correlation id."""
        self._last_id += 1
        limit_ms = self._settings.request_timeout_ms
        self._sent[self._last_id] = Sent(destination, message, now_ms + limit_ms)
        return self._last_id

    def take(self, correlation_id: int) -> Sent | None:
        """Return the request that was answered or has failed; None if it is no longer awaited."""
        return self._sent.pop(correlation_id, None)

    def rest(self, node_id: int, now_ms: int) -> None:
        self._resting[node_id] = now_ms + self._settings.retry_backoff_ms

    def reset(self) -> None:
        self._sent.clear()
        self._resting.clear()

    def expire(self, now_ms: int) -> None:
        """Drop requests that were not answered in time. Their destinations are paused, so that
        others are tried."""
        for correlation_id, sent in list(self._sent.items()):
            if now_ms >= sent.expires_at_ms:
                del self._sent[correlation_id]
                self.rest(sent.destination.id, now_ms)
        for node_id, until_ms in list(self._resting.items()):
            if now_ms >= until_ms:
                del self._resting[node_id]

    def is_resting(self, node_id: int) -> bool:
        return node_id in self._resting

    def is_ready(self, node_id: int) -> bool:
        waits = any(sent.destination.id == node_id for sent in self._sent.values())
        return not waits and node_id not in self._resting

    def has_any_in_flight(self) -> bool:
        return bool(self._sent)

    def pick(self, nodes: Sequence[Node]) -> Node | None:
        """Return any of them that is ready, if no request is in flight."""
        if self._sent:
            return None
        ready = [node for node in nodes if self.is_ready(node.id)]
        return self._random.choice(ready) if ready else None

    def next_change_ms(self) -> int | None:
        """Return when a request expires, or a destination may be asked again."""
        times = [sent.expires_at_ms for sent in self._sent.values()]
        times += self._resting.values()
        return min(times, default=None)
