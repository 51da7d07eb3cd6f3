"""Virtual time as a machine sees it: its wall clock may be wrong, may drift and may jump."""

from __future__ import annotations

from collections.abc import Callable

EPOCH_MS = 1_750_000_000_000
"""The wall clock at the start of every simulation, about the middle of 2025."""


class SimClock:
    def __init__(self, now: Callable[[], float], *, skew_ms: int = 0, drift: float = 0.0) -> None:
        self.now = now
        self.skew_ms = skew_ms
        self._rate = 1.0 + drift

    def wall_ms(self) -> int:
        return EPOCH_MS + self.skew_ms + int(self.now() * 1000.0 * self._rate)

    def jump(self, milliseconds: int) -> None:
        """Move the wall clock, as an operator or a time daemon does, forward or back."""
        self.skew_ms += milliseconds
