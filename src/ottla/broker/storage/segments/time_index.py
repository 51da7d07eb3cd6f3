"""Finds offsets by timestamp. Entries: timestamp int64, relative offset int32, big-endian.

An entry says: no batch up to this offset has a timestamp above this one, and the batch that ends
with the offset has exactly this greatest timestamp.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from ottla.broker.storage.errors import CorruptFile
from ottla.broker.storage.segments.mapped_index import MappedIndex
from ottla.records.header import NO_TIMESTAMP
from ottla.runtime.disk import Disk


class TimeIndex(MappedIndex):
    __slots__ = ("_last",)

    ENTRY: ClassVar[struct.Struct] = struct.Struct(">qi")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(disk, path, base_offset, max_bytes)
        self._last: tuple[int, int] | None = None

    def entries_replaced(self) -> None:
        self._last = None

    @property
    def is_full(self) -> bool:
        """True if only the slot is left that is reserved for the entry added on rolling or
        closing."""
        count = self._entries
        return (count if count >= 0 else self.entries) + 1 >= self._entries_max

    @property
    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) without one."""
        if self._last is None:
            raw = self.read_last()
            if raw is None:
                self._last = (NO_TIMESTAMP, self.base_offset)
            else:
                self._last = (raw[0], self.base_offset + raw[1])
        return self._last

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add the entry if its timestamp is higher than the last."""
        if timestamp > self.last[0]:
            self.store(timestamp, offset - self.base_offset)
            self._last = (timestamp, offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return (timestamp, offset) of the last entry not above `timestamp`, or (-1, base
        offset)."""
        count = self.entries
        low, high = -1, count - 1
        if count:
            view, unpack, width = self.view(), self.ENTRY.unpack_from, self.ENTRY.size
            while low < high:
                middle = (low + high + 1) >> 1
                if unpack(view, middle * width)[0] <= timestamp:
                    low = middle
                else:
                    high = middle - 1
        return self.entry(low) if low >= 0 else (NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> tuple[int, int]:
        timestamp, relative = self.raw(slot)
        return timestamp, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or above `offset`."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) >> 1
            if self.entry(middle)[1] < offset:
                low = middle + 1
            else:
                high = middle
        self.cut_to(low)

    def check(self) -> None:
        """Raise `CorruptFile` unless the last entry is plausible.

        Timestamps ascend: this also distinguishes entries from the zeros of an index not cut to
        size.
        """
        last = self.read_last()
        if last is None:
            return
        timestamp, relative = last
        ascends = self.entries == 1 or self.read_raw(0)[0] < timestamp
        if timestamp < 0 or relative < 0 or not ascends:
            raise CorruptFile(
                self.path,
                f"last entry (timestamp {timestamp}, relative offset {relative}) is impossible",
            )
