"""A file of fixed-size entries in ascending order, mapped into memory while it is in use.

The active segment's index is extended (sparsely) to its greatest size, so that appending an entry
is a store into memory; it is cut to its entries when the segment is rolled or closed. A file is
opened and mapped only on the first lookup or append: thousands of idle partitions cost no mapping.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from ottla.broker.storage.errors import CorruptFile
from ottla.runtime.disk import Disk, Mapping

PAGE_BYTES = 4096
_ZERO_PAGE = bytes(PAGE_BYTES)
RELATIVE_OFFSET_MAX = 2**31 - 1


class MappedIndex:
    """Shared by offset and time index: the file, its mapping and the number of entries."""

    __slots__ = (
        "_disk",
        "_entries",
        "_entries_max",
        "_mapping",
        "_reserved_bytes",
        "base_offset",
        "max_bytes",
        "path",
    )

    ENTRY: ClassVar[struct.Struct]

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._entries_max = max_bytes // self.ENTRY.size
        self.max_bytes = self._entries_max * self.ENTRY.size
        self._entries = -1
        self._mapping: Mapping | None = None
        self._reserved_bytes = 0

    @property
    def entries(self) -> int:
        """The number of entries; reads the file's size on first use."""
        if self._entries < 0:
            self._load()
        return self._entries

    @property
    def has_room(self) -> bool:
        return (self.entries + 1) * self.ENTRY.size <= self.max_bytes

    @property
    def is_full(self) -> bool:
        # Every append asks this, so it does not go through `entries` if that is known.
        count = self._entries
        return (count if count >= 0 else self.entries) >= self._entries_max

    def create(self) -> None:
        """Create the file, empty. An existing file is overwritten."""
        file = self._disk.open(self.path, create=True)
        try:
            if file.size():
                file.truncate(0)
        finally:
            file.close()
        self._entries = 0
        self.entries_replaced()

    def _load(self) -> None:
        size = self._disk.size(self.path)
        if size % self.ENTRY.size:
            raise CorruptFile(
                self.path, f"{size} bytes is not a multiple of the entry size {self.ENTRY.size}"
            )
        self._entries = size // self.ENTRY.size
        self.entries_replaced()

    def entries_replaced(self) -> None:
        """Called when the last entry may be another one, for subclasses that cache it."""

    def read_last(self) -> tuple[int, int] | None:
        """Return the last entry, raw, without mapping the file."""
        count = self.entries
        return self.read_raw(count - 1) if count else None

    def read_raw(self, slot: int) -> tuple[int, int]:
        """Like `raw`, but without mapping the file."""
        if self._mapping is not None:
            return self.raw(slot)
        file = self._disk.open(self.path)
        try:
            data = file.read_at(slot * self.ENTRY.size, self.ENTRY.size)
        finally:
            file.close()
        if len(data) < self.ENTRY.size:
            raise CorruptFile(self.path, "shorter than its size said")
        first, second = self.ENTRY.unpack(data)
        return first, second

    def raw(self, slot: int) -> tuple[int, int]:
        """Return an entry as the file has it: offsets are relative to the base offset."""
        first, second = self.ENTRY.unpack_from(self.view(), slot * self.ENTRY.size)
        return first, second

    def view(self) -> memoryview:
        """The mapped file; the next `release` or `store` may end its use."""
        if self._mapping is None:
            self._map(self.entries * self.ENTRY.size)
        assert self._mapping is not None
        return self._mapping.view

    def pin(self) -> None:
        """Map the file now, so that lookups do not need its name."""
        if self.entries:
            self.view()

    def _map(self, size: int) -> None:
        self._unmap()
        file = self._disk.open(self.path)
        try:
            if file.size() < size:
                file.truncate(size)
            self._mapping = file.map(size)
        finally:
            file.close()

    def _unmap(self) -> None:
        mapping, self._mapping = self._mapping, None
        if mapping is not None:
            mapping.close()

    def store(self, first: int, second: int) -> None:
        """Append one raw entry."""
        position = self.entries * self.ENTRY.size
        following = position + self.ENTRY.size
        if following > self._reserved_bytes:
            self._reserve(following)
        assert self._mapping is not None
        self.ENTRY.pack_into(self._mapping.view, position, first, second)
        self._entries += 1

    def _reserve(self, needed_bytes: int) -> None:
        """Make the file system allocate the next page by an ordinary write.

        On a full disk, a store into a hole of a mapped file kills the process; a write raises an
        error.
        """
        if needed_bytes > self.max_bytes:
            raise ValueError(f"index {self.path} is full with {self._entries} entries")
        if self._mapping is None or len(self._mapping.view) < self.max_bytes:
            self._map(self.max_bytes)
        used = self._entries * self.ENTRY.size
        page_end = min(used - used % PAGE_BYTES + PAGE_BYTES, self.max_bytes)
        if page_end < needed_bytes:
            page_end = min(page_end + PAGE_BYTES, self.max_bytes)
        file = self._disk.open(self.path)
        try:
            while used < page_end:
                used += file.write_at(used, [_ZERO_PAGE[: min(PAGE_BYTES, page_end - used)]])
        finally:
            file.close()
        self._reserved_bytes = page_end

    def trim(self) -> None:
        """Cut the file to its entries and unmap it."""
        if self._mapping is None:
            return
        self.release()
        file = self._disk.open(self.path)
        try:
            file.truncate(self._entries * self.ENTRY.size)
        finally:
            file.close()

    def release(self) -> None:
        """Unmap the file; the next use maps it again. The number of entries stays known."""
        self._unmap()
        self._reserved_bytes = 0

    def forget(self) -> None:
        """Unmap the file and read its size again on the next use."""
        self.release()
        self._entries = -1

    def sync(self) -> None:
        """Sync the file. It is opened by name, so that this may run beside the thread that uses the
        mapping."""
        file = self._disk.open(self.path)
        try:
            file.sync()
        finally:
            file.close()

    def cut_to(self, entries: int) -> None:
        """Keep the first `entries` only; `trim` cuts the file."""
        self._entries = entries
        # The last page may be shared with bytes reserved earlier: reserve again.
        self._reserved_bytes = 0
        self.entries_replaced()
