"""How long something took: its number, its sum, and quantiles of the last minute or two.

A duration falls into one of eight buckets for each power of two of microseconds, so a quantile is
exact to an eighth. Buckets that nothing falls into take no memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

WINDOW_S: Final = 60.0
_US: Final = 1_000_000


class Latencies:
    __slots__ = ("_before", "_now", "_turned_s", "count", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self._now: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._turned_s = 0.0

    def record(self, seconds: float) -> None:
        self.count += 1
        self.total_s += seconds
        us = int(seconds * _US)
        if us >= 8:
            shift = us.bit_length() - 4
            bucket = (shift << 3) + (us >> shift)
        else:
            bucket = us if us > 0 else 0
        buckets = self._now
        buckets[bucket] = buckets.get(bucket, 0) + 1

    def quantiles_ms(self, wanted: Sequence[float], now_s: float) -> list[float]:
        """Return the quantiles of what was recorded in the last window and in the present one."""
        counts = dict(self._before)
        for bucket, count in self._now.items():
            counts[bucket] = counts.get(bucket, 0) + count
        if now_s - self._turned_s >= WINDOW_S:
            # What nobody asked for in time belongs to no window.
            is_late = now_s - self._turned_s >= 2 * WINDOW_S
            self._before, self._now = ({} if is_late else self._now), {}
            self._turned_s = now_s
        return quantiles_ms(counts, wanted)


def quantiles_ms(counts: dict[int, int], wanted: Sequence[float]) -> list[float]:
    """Return quantiles in milliseconds: the greatest duration of the bucket that each falls into;
    0 if there are none."""
    total = sum(counts.values())
    if not total:
        return [0.0] * len(wanted)
    buckets = sorted(counts)
    found: list[float] = []
    position = 0
    passed = counts[buckets[0]]
    for quantile in wanted:  # in ascending order
        while passed < quantile * total and position < len(buckets) - 1:
            position += 1
            passed += counts[buckets[position]]
        found.append(_upper_us(buckets[position]) / 1000)
    return found


def _upper_us(bucket: int) -> int:
    """Return the greatest duration of a bucket."""
    if bucket < 16:
        return bucket
    shift = (bucket >> 3) - 1
    return (((bucket & 7) + 8 + 1) << shift) - 1
