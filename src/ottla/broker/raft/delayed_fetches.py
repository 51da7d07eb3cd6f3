"""Fetches that wait at the leader for new records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.broker.raft.events import RequestReceived
from ottla.protocol.messages.fetch import FetchRequest


@dataclass(frozen=True, slots=True)
class DelayedFetch:
    event: RequestReceived
    request: FetchRequest
    offset: int
    expires_at_ms: int


class DelayedFetches:
    """At most one per connection, as responses keep the order of requests: so the server bounds
    them."""

    def __init__(self) -> None:
        self._waiting: list[DelayedFetch] = []

    def add(self, fetch: DelayedFetch) -> None:
        self._waiting.append(fetch)

    def take_all(self) -> list[DelayedFetch]:
        taken, self._waiting = self._waiting, []
        return taken

    def take_before(self, end_offset: int) -> list[DelayedFetch]:
        """Take the fetches for which there are records now."""
        return self._take(lambda fetch: fetch.offset < end_offset)

    def take_expired(self, now_ms: int) -> list[DelayedFetch]:
        return self._take(lambda fetch: fetch.expires_at_ms <= now_ms)

    def next_expiry_ms(self) -> int | None:
        return min((fetch.expires_at_ms for fetch in self._waiting), default=None)

    def _take(self, is_due: Callable[[DelayedFetch], bool]) -> list[DelayedFetch]:
        taken = [fetch for fetch in self._waiting if is_due(fetch)]
        self._waiting = [fetch for fetch in self._waiting if not is_due(fetch)]
        return taken
