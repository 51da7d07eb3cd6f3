"""The search in an offset index: the position of every reader that is not at the end."""

from __future__ import annotations

import struct
from typing import Final

from ottla.buffers import Buffer

_ENTRY: Final = struct.Struct(">ii")


def floor_slot(entries: Buffer, count: int, target: int) -> int:
    """Return the last of `count` entries of an offset index whose relative offset is not above
    `target`; -1 if there is none."""
    if not 0 <= count <= len(entries) // _ENTRY.size:
        raise ValueError(f"{count} entries in {len(entries)} bytes")
    unpack, width = _ENTRY.unpack_from, _ENTRY.size
    low, high = -1, count - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if unpack(entries, middle * width)[0] <= target:
            low = middle
        else:
            high = middle - 1
    return low
