"""Metrics of a client or a broker, under Kafka's names.

They are plain numbers on one event loop: no locks, and nothing is computed before it is read. There
are no rates: compute them from two readings and their times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

WINDOW_S = 30.0
"""Averages and maxima forget values that are older than two windows."""


class Metric(NamedTuple):
    """A number as it was when it was read, under Kafka's names."""

    group: str
    name: str
    labels: Mapping[str, str]
    value: float


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        self.value += amount


class Timer:
    """The average and maximum of recently recorded values: durations, sizes, counts."""

    __slots__ = ("_earlier", "count", "max", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.max = 0.0
        self._earlier = (0, 0.0, 0.0)

    def record(self, value: float) -> None:
        self.count += 1
        self.total += value
        if value > self.max:
            self.max = value

    def average_and_max(self) -> tuple[float, float]:
        count, total, largest = self._earlier
        count += self.count
        average = (total + self.total) / count if count else 0.0
        return average, max(largest, self.max)

    def turn(self) -> None:
        """Begin a new window, and forget the one before the last."""
        self._earlier = (self.count, self.total, self.max)
        self.count, self.total, self.max = 0, 0.0, 0.0


class MetricRegistry:
    """All metrics of one client or broker. The same name returns the same counter."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        """`now` is the clock by which timers forget; without it they remember everything."""
        self._now = now
        self._turned_at = now() if now is not None else 0.0
        self._counters: dict[str, Counter] = {}
        self._timers: dict[str, Timer] = {}
        self._gauges: dict[str, Callable[[], float]] = {}

    def counter(self, name: str) -> Counter:
        return self._counters.setdefault(name, Counter())

    def timer(self, name: str) -> Timer:
        """Return a timer, which is reported as `<name>-avg` and `<name>-max`."""
        return self._timers.setdefault(name, Timer())

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Register a number that is read when the metrics are."""
        self._gauges[name] = read

    def snapshot(self) -> dict[str, float]:
        found: dict[str, float] = {name: one.value for name, one in self._counters.items()}
        for name, timer in self._timers.items():
            found[f"{name}-avg"], found[f"{name}-max"] = timer.average_and_max()
        for name, read in self._gauges.items():
            found[name] = read()
        self._turn_if_due()
        return dict(sorted(found.items()))

    def _turn_if_due(self) -> None:
        if self._now is None or (now := self._now()) - self._turned_at < WINDOW_S:
            return
        self._turned_at = now
        for timer in self._timers.values():
            timer.turn()
