"""A rate over sliding windows, and how long to pause to stay within a limit. Both are computed as
Kafka does it for its quotas."""

from __future__ import annotations

from collections import deque
from typing import Final

ELAPSED_S_MIN: Final = 0.001


class _Window:
    __slots__ = ("amount", "last_s", "start_s")

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.last_s = start_s
        self.amount = 0.0


class Rate:
    """Something per second, over the last windows. A window begins with the first event after the
    end of the one before."""

    __slots__ = ("_total", "_window_count", "_window_s", "_windows")

    def __init__(self, window_count: int, window_s: float) -> None:
        self._window_count = window_count
        self._window_s = window_s
        self._windows: deque[_Window] = deque()
        self._total = 0.0

    def record(self, amount: float, now: float) -> None:
        windows = self._windows
        if not windows or now - windows[-1].start_s >= self._window_s:
            windows.append(_Window(now))
            # One more than counts: the oldest may lie partly within the time that is measured.
            if len(windows) > self._window_count + 1:
                self._total -= windows.popleft().amount
        window = windows[-1]
        window.last_s = now
        window.amount += amount
        self._total += amount

    def per_second(self, now: float) -> float:
        self._expire(now)
        return self._total / self._elapsed_s(now)

    def pause_s(self, limit: float, now: float) -> float:
        """Return how long to wait until the rate is as allowed; 0 if it is."""
        self._expire(now)
        elapsed_s = self._elapsed_s(now)
        if self._total <= limit * elapsed_s:
            return 0.0
        return self._total / limit - elapsed_s if limit else self._window_s

    def _expire(self, now: float) -> None:
        windows = self._windows
        age_s_max = self._window_count * self._window_s
        while windows and now - windows[0].last_s >= age_s_max:
            self._total -= windows.popleft().amount
        if not windows:
            self._total = 0.0  # without what rounding left

    def _elapsed_s(self, now: float) -> float:
        """Return the time that is measured: at least all windows but one, so that a short start
        does not count as a rate."""
        elapsed_s = now - self._windows[0].start_s if self._windows else 0.0
        missing = self._window_count - 1 - int(elapsed_s / self._window_s)
        return max(elapsed_s + max(missing, 0) * self._window_s, ELAPSED_S_MIN)
