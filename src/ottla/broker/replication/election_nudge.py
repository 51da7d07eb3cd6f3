"""After an election, lets followers reach the new leader without waiting for their fetches to end.

A follower's fetch waits at its leader as long as there is nothing new, and meanwhile the follower
cannot request partitions that it has begun to follow since. So a broker that becomes the leader of
a partition answers the waiting fetches of its followers at once, and keeps their waits short for a
moment, until they have heard of the election too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

NUDGE_S: Final = 1.0
WAIT_MS: Final = 20


class WaitingFetch(Protocol):
    def hurry(self) -> None: ...


class ElectionNudge:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until: dict[int, float] = {}
        self._waiting: dict[int, dict[WaitingFetch, None]] = {}

    def elected(self, followers: Iterable[int]) -> None:
        """Hurry these followers: this broker has become the leader of a partition of theirs."""
        until = self._now() + NUDGE_S
        for follower in followers:
            self._until[follower] = until
            for fetch in list(self._waiting.get(follower, ())):
                fetch.hurry()

    def wait_ms(self, follower: int, wait_ms: int) -> int:
        """Return how long a fetch of this follower may wait now."""
        until = self._until.get(follower)
        if until is None:
            return wait_ms
        if self._now() < until:
            return min(wait_ms, WAIT_MS)
        del self._until[follower]
        return wait_ms

    def register_waiting(self, follower: int, fetch: WaitingFetch) -> None:
        self._waiting.setdefault(follower, {})[fetch] = None

    def unregister_waiting(self, follower: int, fetch: WaitingFetch) -> None:
        self._waiting.get(follower, {}).pop(fetch, None)
