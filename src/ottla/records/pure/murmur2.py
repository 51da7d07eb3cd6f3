"""The hash that assigns keyed records to partitions, the same in every Kafka client."""

import struct
from typing import Any

from ottla.buffers import Buffer
from ottla.records.pure.column_access import BytesColumn

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_NO_PARTITION = -1


def murmur2(data: Buffer) -> int:
    """Return the 32-bit Murmur2 hash with the Java client's seed, as an unsigned number."""
    key = bytes(memoryview(data))
    length = len(key)
    h = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(key[position : position + 4], "little") * _MULTIPLIER & _MASK
        k ^= k >> 24
        h = (h * _MULTIPLIER & _MASK) ^ (k * _MULTIPLIER & _MASK)
    if length > whole:
        h ^= int.from_bytes(key[whole:], "little")
        h = h * _MULTIPLIER & _MASK
    h ^= h >> 13
    h = h * _MULTIPLIER & _MASK
    return h ^ (h >> 15)


def partition_rows(
    key_offsets: Any, key_data: Any, key_validity: Any, count: int, partition_count: int
) -> bytes:
    """Return the partition of every row of a key column, an int32 each; -1 if the key is null."""
    check_partition_count(partition_count)
    keys = BytesColumn("key", count, key_offsets, key_data, key_validity)
    partitions = [
        _NO_PARTITION if key is None else (murmur2(key) & _POSITIVE) % partition_count
        for key in map(keys.at, range(count))
    ]
    return struct.pack(f"<{count}i", *partitions)


def check_partition_count(count: int) -> None:
    if count < 1:
        raise ValueError(f"a topic has at least 1 partition, not {count}")
