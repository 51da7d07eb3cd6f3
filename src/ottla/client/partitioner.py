"""Which partition a record goes to.

Records with a key go where the Java client would send them, so that mixed producers agree. Records
without one stick to a partition for a batch, then move on: full batches and an even spread.
"""

from __future__ import annotations

import random

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit Murmur2 hash with the Java client's seed, as an unsigned number."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        k ^= k >> 24
        h = (h * _MULTIPLIER & _MASK) ^ (k * _MULTIPLIER & _MASK)
    if length > whole:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _MULTIPLIER & _MASK
    h ^= h >> 13
    h = h * _MULTIPLIER & _MASK
    return h ^ (h >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Keys by hash; the rest to one partition until `batch_full` moves it on."""

    def __init__(self, partition_count: int, chance: random.Random) -> None:
        self._count = partition_count
        self._chance = chance
        self._current = chance.randrange(partition_count)

    def partition(self, key: bytes | None) -> int:
        if key is None:
            return self._current
        return partition_for_key(key, self._count)

    def batch_full(self, partition: int) -> None:
        if partition == self._current and self._count > 1:
            step = 1 + self._chance.randrange(self._count - 1)
            self._current = (self._current + step) % self._count
