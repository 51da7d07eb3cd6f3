"""A token bucket that may go below zero: bursts are allowed, and paid for afterwards."""

from __future__ import annotations

from typing import Final

from ottla.broker.quotas.settings import QuotaWindows

ROUNDED_S: Final = 0.001
"""Throttle times are told in whole milliseconds, rounded."""


class TokenBucket:
    """It is full at first, and holds as much as the limit gives in all windows."""

    __slots__ = ("_tokens", "_updated_s", "_windows", "limit")

    def __init__(self, limit: float, windows: QuotaWindows, now: float) -> None:
        self.limit = limit
        """Tokens per second; may change at any time."""
        self._windows = windows
        self._tokens = self._size
        self._updated_s = now

    @property
    def _size(self) -> float:
        return self.limit * self._windows.span_s

    def tokens(self, now: float) -> float:
        self._tokens = min(self._size, self._tokens + self.limit * (now - self._updated_s))
        self._updated_s = now
        return self._tokens

    def take(self, amount: float, now: float) -> None:
        self._tokens = min(self._size, self.tokens(now) - amount)

    def throttle_ms(self, now: float) -> int:
        """Return how long it takes until no token is missing."""
        return max(0, round(-self.tokens(now) / self.limit * 1000))

    def is_overdrawn(self, now: float) -> bool:
        """True if a client has to wait. One that has waited as long as it was told has not, though
        the time it was told was rounded."""
        return self.tokens(now) < -self.limit * ROUNDED_S

    def is_full(self, now: float) -> bool:
        return self.tokens(now) >= self._size
