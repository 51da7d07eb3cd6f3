"""What came of quotas: for how long clients had to wait, and what the log says of it.

Imported when the first client is throttled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

from ottla.counters import WINDOW_S, Timer

Tell: TypeAlias = Callable[[dict[str, object]], object]
"""Writes a line with these fields into the log."""

LINE_INTERVAL_S: Final = 60.0
"""How often the log names the same budget."""
LINES_PER_S_MAX: Final = 10
"""The most lines about all budgets together; the others are counted."""


class Throttling:
    """How often, and for how long, the clients of one budget had to wait."""

    __slots__ = ("_timer", "_turned_s", "line_s", "untold")

    def __init__(self, now: float) -> None:
        self.line_s: float | None = None
        """When the log named this budget last."""
        self.untold = 0
        """How often it was throttled since."""
        self._timer = Timer()
        self._turned_s = now

    def note(self, throttle_ms: float, now: float) -> None:
        self.untold += 1
        self._turn(now)
        self._timer.record(throttle_ms)

    def average_ms(self, now: float) -> float:
        self._turn(now)
        return self._timer.average_and_max()[0]

    def _turn(self, now: float) -> None:
        windows = int((now - self._turned_s) / WINDOW_S)
        for _ in range(min(windows, 2)):
            self._timer.turn()
        self._turned_s += windows * WINDOW_S


class Limited(Protocol):
    """A budget: what the clients of the same tags may use."""

    throttling: Throttling | None
    """None if nobody was throttled."""


def throttle_time_ms(budget: Limited, now: float) -> float:
    """Return the average throttle time of the last 30 to 60 seconds; 0 if there was none."""
    return 0.0 if budget.throttling is None else budget.throttling.average_ms(now)


class ThrottleLog:
    """Tells who is throttled: each budget once a minute, and not too many of them at once."""

    __slots__ = ("_dropped", "_end_s", "_left", "_tell")

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._left = 0
        self._end_s = 0.0
        self._dropped = 0

    def note(
        self,
        quota: str,
        labels: Mapping[str, str],
        limit: float,
        budget: Limited,
        throttle_ms: int,
        now: float,
    ) -> None:
        """Count a request that has to wait, and log it if it is time to."""
        throttling = budget.throttling
        if throttling is None:
            throttling = budget.throttling = Throttling(now)
        throttling.note(throttle_ms, now)
        if throttling.line_s is not None and now - throttling.line_s < LINE_INTERVAL_S:
            return
        throttling.line_s = now
        if now >= self._end_s:
            self._end_s = now + 1.0
            self._left = LINES_PER_S_MAX
        if not self._left:
            self._dropped += 1
            return
        self._left -= 1
        fields: dict[str, object] = {
            "quota": str(quota),
            "limit": limit,
            "throttle_ms": throttle_ms,
            **{name.replace("-", "_"): value for name, value in labels.items() if value},
        }
        if throttling.untold > 1:
            fields["times_since_last_line"] = throttling.untold
        if self._dropped:
            fields["others_not_logged"] = self._dropped
        throttling.untold = self._dropped = 0
        self._tell(fields)
