"""The partition of an internal topic that a group or transactional id belongs to.

Clients and tools compute it too, so it must be exactly Java's hash of the string.
"""

from __future__ import annotations

import struct

_MASK = 0xFFFFFFFF
_INT_MIN = 0x80000000


def java_string_hash(text: str) -> int:
    """`String.hashCode`: over the UTF-16 code units, as a signed 32-bit number."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        value = (31 * value + unit) & _MASK
    return value - (1 << 32) if value & _INT_MIN else value


def partition_of(key: str, partition_count: int) -> int:
    value = java_string_hash(key)
    # The smallest number has no positive counterpart, and counts as 0.
    return (0 if value == -_INT_MIN else abs(value)) % partition_count
