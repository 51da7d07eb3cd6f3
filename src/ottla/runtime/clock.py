"""Time. Nothing outside `runtime/` reads a clock directly, so that a simulation can control it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds: for durations, deadlines and timers. The event loop's own time."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch: for record timestamps and retention."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
