"""Limits the rate at which throttled replicas are copied.

Both sides have a limit: a leader leaves throttled replicas out of its responses while it has sent
too much, a follower leaves them out of its requests while it has received too much. Replicas in
sync are never delayed, because that would push them out of the ISR; nor are replicas that have
caught up and are about to join, because the high watermark waits for them, and with it every
`acks=all`. (Kafka delays those.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ottla.rate import Rate

UNLIMITED: Final = 2**63 - 1
ALL_REPLICAS: Final = "*"


class ReplicationThrottle:
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
