"""Limits the rate at which throttled replicas are copied.

Both sides have a limit: a leader leaves throttled replicas out of its responses while it has sent
too much, a follower leaves them out of its requests while it has received too much. Replicas in
sync are never delayed, because that would push them out of the ISR; nor are replicas that have
caught up and are about to join, because the high watermark waits for them, and with it every
`acks=all`. (Kafka delays those.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

UNLIMITED: Final = 2**63 - 1
ALL_REPLICAS: Final = "*"


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


class Throttle:
    """The limit of one side, for the replicas that topics name."""

    def __init__(self, node_id: int, now: Callable[[], float]) -> None:
        self._node_id = node_id
        self._now = now
        self._bytes_per_s = UNLIMITED
        self._rate = Rate(11, 1.0)
        self._covered: dict[str, frozenset[int] | None] = {}
        """By topic: its throttled partitions here; None for all."""

    def limit(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s

    def measure(self, window_count: int, window_s: float) -> None:
        self._rate = Rate(window_count, window_s)

    def cover(self, topic: str, replicas: Iterable[str]) -> None:
        """`replicas`: `partition:broker` each, or `*`, as in `...throttled.replicas`."""
        listed = [replica.strip() for replica in replicas]
        if ALL_REPLICAS in listed:
            self._covered[topic] = None
            return
        pairs = (replica.partition(":") for replica in listed if replica)
        here = frozenset(int(index) for index, _, broker in pairs if int(broker) == self._node_id)
        if here:
            self._covered[topic] = here
        else:
            self._covered.pop(topic, None)

    def forget(self, topic: str) -> None:
        self._covered.pop(topic, None)

    def covers(self, topic: str, index: int) -> bool:
        if not self._covered or topic not in self._covered:
            return False
        indexes = self._covered[topic]
        return indexes is None or index in indexes

    def record(self, count: int) -> None:
        self._rate.record(count, self._now())

    def pause_s(self) -> float:
        """Return how long to leave throttled replicas out; 0 if not at all."""
        if self._bytes_per_s == UNLIMITED:
            return 0.0
        return self._rate.pause_s(self._bytes_per_s, self._now())
