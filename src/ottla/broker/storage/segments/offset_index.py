"""Finds the position of an offset in a segment. Entries: relative offset int32, position int32,
big-endian.

An entry says: the batch whose *last* offset this is begins at this byte. Kafka followers may write
entries whose offset is the last of several batches. So an entry only promises that a batch begins
at the position, and that its base offset is not above the entry's offset.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from ottla.broker.storage.errors import CorruptFile
from ottla.broker.storage.segments.mapped_index import RELATIVE_OFFSET_MAX, MappedIndex
from ottla.records.engine import floor_slot


class OffsetIndex(MappedIndex):
    __slots__ = ()

    ENTRY: ClassVar[struct.Struct] = struct.Struct(">ii")

    def append(self, offset: int, position: int) -> None:
        """Append an entry. Offsets must ascend; the caller rolls the segment before an index is
        full."""
        relative = offset - self.base_offset
        if not 0 <= relative <= RELATIVE_OFFSET_MAX:
            raise ValueError(f"offset {offset} is out of reach of index {self.path}")
        self.store(relative, position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return (offset, position) of the last entry not above `offset`; (base offset, 0) without
        one."""
        slot = self._floor_slot(offset)
        if slot < 0:
            return self.base_offset, 0
        relative, position = self.raw(slot)
        return self.base_offset + relative, position

    def _floor_slot(self, offset: int) -> int:
        count = self.entries
        if not count:
            return -1
        return floor_slot(self.view(), count, offset - self.base_offset)

    def position_from(self, position: int) -> int | None:
        """Return the position in the first entry at or after `position`."""
        count = self.entries
        if not count:
            return None
        view, unpack, width = self.view(), self.ENTRY.unpack_from, self.ENTRY.size
        low, high = 0, count
        while low < high:
            middle = (low + high) >> 1
            if unpack(view, middle * width)[1] < position:
                low = middle + 1
            else:
                high = middle
        return None if low == count else int(self.raw(low)[1])

    def entry(self, slot: int) -> tuple[int, int]:
        relative, position = self.raw(slot)
        return self.base_offset + relative, position

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or above `offset`."""
        slot = self._floor_slot(offset)
        while slot >= 0 and self.entry(slot)[0] >= offset:
            slot -= 1
        self.cut_to(slot + 1)

    def check(self, log_bytes: int) -> None:
        """Raise `CorruptFile` unless the last entry is plausible.

        The first batch of a segment never gets an entry, so a true entry has a position above 0;
        this also distinguishes entries from the zeros of an index that was not cut to size.
        """
        last = self.read_last()
        if last is None:
            return
        relative, position = last
        if relative < 0 or not 0 < position < log_bytes:
            raise CorruptFile(
                self.path,
                f"last entry (relative offset {relative}, position {position}) "
                f"is impossible for a segment of {log_bytes} bytes",
            )
