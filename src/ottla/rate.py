"""A rate over sliding windows, and how long to pause to stay within a limit."""

from __future__ import annotations

from collections import deque


class Rate:
    """Bytes per second over the last windows."""

    def __init__(self, window_count: int, window_s: float) -> None:
        self._window_count = window_count
        self._window_s = window_s
        self._windows: deque[tuple[int, int]] = deque()
        """(number of the window, bytes in it), oldest first."""
        self._total = 0

    def record(self, count: int, now: float) -> None:
        number = int(now / self._window_s)
        self._expire(number)
        self._total += count
        if self._windows and self._windows[-1][0] == number:
            self._windows[-1] = (number, self._windows[-1][1] + count)
        else:
            self._windows.append((number, count))

    def _expire(self, number: int) -> None:
        while self._windows and self._windows[0][0] <= number - self._window_count:
            self._total -= self._windows.popleft()[1]

    def pause_s(self, bytes_per_s: int, now: float) -> float:
        """Return how long to wait until the rate is as allowed; 0 if it is."""
        self._expire(int(now / self._window_s))
        if not self._windows:
            return 0.0
        # Over at least all windows but one, as in Kafka: a short start does not count as a rate.
        elapsed = now - self._windows[0][0] * self._window_s
        elapsed = max(elapsed, (self._window_count - 1) * self._window_s)
        if self._total <= bytes_per_s * elapsed:
            return 0.0
        return self._total / bytes_per_s - elapsed if bytes_per_s else self._window_s
