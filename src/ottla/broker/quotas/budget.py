"""The budget that clients of the same tags share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ottla.broker.quotas.entities import Tags
from ottla.broker.quotas.settings import QuotaWindows
from ottla.rate import Rate

if TYPE_CHECKING:
    from ottla.broker.quotas.throttling import Throttling


class Budget:
    """An amount per second, over the windows of the broker's settings."""

    __slots__ = ("_pause_s_max", "_rate", "last_used_s", "limit", "tags", "throttling", "windows")

    def __init__(
        self,
        tags: Tags,
        limit: float,
        windows: QuotaWindows,
        now: float,
        *,
        pause_s_max: float = math.inf,
    ) -> None:
        self.tags = tags
        self.limit = limit
        """May change at any time."""
        self.windows = windows
        self.last_used_s = now
        self.throttling: Throttling | None = None
        self._pause_s_max = pause_s_max
        self._rate = Rate(windows.number, windows.size_s)

    def charge(self, amount: float, now: float) -> int:
        """Count what was used; return for how many milliseconds the client must not be served."""
        self.note(amount, now)
        return self.throttle_ms(now)

    def note(self, amount: float, now: float) -> None:
        """Count what was used, or take it back if it is negative, without a consequence now."""
        self.last_used_s = now
        self._rate.record(amount, now)

    def throttle_ms(self, now: float) -> int:
        return round(min(self._rate.pause_s(self.limit, now), self._pause_s_max) * 1000)

    def per_second(self, now: float) -> float:
        return self._rate.per_second(now)

    @property
    def at_once_max(self) -> int:
        """The most that can be used in one go without a wait that spans all windows."""
        return int(min(self.limit * (self.windows.number - 1) * self.windows.size_s, 2**63 - 1))

    def is_forgotten(self, now: float) -> bool:
        """True if nothing of what was used counts any more."""
        return now - self.last_used_s >= self.windows.span_s
