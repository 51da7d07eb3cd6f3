"""After an election: followers find their way to the new leader without waiting out their fetches.

A follower's fetch waits at its leader for as long as there is nothing new, and while it does it
cannot ask for partitions that it has come to follow since. So whoever becomes the leader of
something answers what waits of its followers at once, and keeps their waits short for a moment,
until they have heard of the election too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

HASTE_S: Final = 1.0
WAIT_MS: Final = 20


class WaitingFetch(Protocol):
    def hurry(self) -> None: ...


class Haste:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until: dict[int, float] = {}
        self._waiting: dict[int, dict[WaitingFetch, None]] = {}

    def elected(self, followers: Iterable[int]) -> None:
        """This broker has become the leader of something that these are to copy."""
        until = self._now() + HASTE_S
        for follower in followers:
            self._until[follower] = until
            for fetch in list(self._waiting.get(follower, ())):
                fetch.hurry()

    def wait_ms(self, follower: int, wait_ms: int) -> int:
        """How long a fetch of this follower may wait now."""
        until = self._until.get(follower)
        if until is None:
            return wait_ms
        if self._now() < until:
            return min(wait_ms, WAIT_MS)
        del self._until[follower]
        return wait_ms

    def waits(self, follower: int, fetch: WaitingFetch) -> None:
        self._waiting.setdefault(follower, {})[fetch] = None

    def waits_no_more(self, follower: int, fetch: WaitingFetch) -> None:
        self._waiting.get(follower, {}).pop(fetch, None)
