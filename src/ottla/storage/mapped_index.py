"""A file of fixed-size entries in ascending order, mapped into memory while it is in use.

The active segment's index is extended (sparsely) to its greatest size, so that appending an entry
is a store into memory; it is cut to its entries when the segment is rolled or closed. Nothing is
opened or mapped before the first lookup or append: thousands of idle partitions cost no mapping.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from ottla.runtime.disk import Disk, Mapping
from ottla.storage.errors import CorruptFile

PAGE_BYTES = 4096
_ZERO_PAGE = bytes(PAGE_BYTES)
RELATIVE_OFFSET_MAX = 2**31 - 1


class MappedIndex:
    """What offset and time index share: the file, its mapping and the number of entries."""

    __slots__ = (
        "_disk",
        "_entries",
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
        self.max_bytes = max_bytes - max_bytes % self.ENTRY.size
        self._entries = -1
        self._mapping: Mapping | None = None
        self._reserved_bytes = 0

    @property
    def entries(self) -> int:
        """How many entries there are; looks at the file on first use."""
        if self._entries < 0:
            self._load()
        return self._entries

    @property
    def has_room(self) -> bool:
        return (self.entries + 1) * self.ENTRY.size <= self.max_bytes

    @property
    def is_full(self) -> bool:
        return self.entries * self.ENTRY.size >= self.max_bytes

    def create(self) -> None:
        """Make the file, empty. Whatever a file of this name held is gone."""
        file = self._disk.open(self.path, create=True)
        try:
            if file.size():
                file.truncate(0)
        finally:
            file.close()
        self._entries = 0
        self._loaded()

    def _load(self) -> None:
        size = self._disk.size(self.path)
        if size % self.ENTRY.size:
            raise CorruptFile(
                self.path, f"{size} bytes is not a multiple of the entry size {self.ENTRY.size}"
            )
        self._entries = size // self.ENTRY.size
        self._loaded()

    def _loaded(self) -> None:
        """For subclasses that remember the last entry."""

    def read_last(self) -> tuple[int, int] | None:
        """The last entry, raw, without mapping the file."""
        count = self.entries
        return self._read(count - 1) if count else None

    def _read(self, slot: int) -> tuple[int, int]:
        """An entry, raw, without mapping the file."""
        if self._mapping is not None:
            return self._raw(slot)
        file = self._disk.open(self.path)
        try:
            data = file.read_at(slot * self.ENTRY.size, self.ENTRY.size)
        finally:
            file.close()
        if len(data) < self.ENTRY.size:
            raise CorruptFile(self.path, "shorter than its size said")
        first, second = self.ENTRY.unpack(data)
        return first, second

    def _raw(self, slot: int) -> tuple[int, int]:
        first, second = self.ENTRY.unpack_from(self._view(), slot * self.ENTRY.size)
        return first, second

    def _view(self) -> memoryview:
        if self._mapping is None:
            self._map(self.entries * self.ENTRY.size)
        assert self._mapping is not None
        return self._mapping.view

    def pin(self) -> None:
        """Map the file now, so that lookups do not need its name."""
        if self.entries:
            self._view()

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

    def _store(self, first: int, second: int) -> None:
        """Append one raw entry."""
        position = self.entries * self.ENTRY.size
        following = position + self.ENTRY.size
        if following > self._reserved_bytes:
            self._reserve(following)
        assert self._mapping is not None
        self.ENTRY.pack_into(self._mapping.view, position, first, second)
        self._entries += 1

    def _reserve(self, needed_bytes: int) -> None:
        """Have the file system allocate the next page by an ordinary write.

        A store into a hole of a mapped file on a full disk kills the process; a write says so.
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
        """Cut the file to its entries and let go of the memory."""
        if self._mapping is None:
            return
        self.release()
        file = self._disk.open(self.path)
        try:
            file.truncate(self._entries * self.ENTRY.size)
        finally:
            file.close()

    def release(self) -> None:
        """Unmap; the next use maps again. Entries stored so far stay counted."""
        self._unmap()
        self._reserved_bytes = 0

    def forget(self) -> None:
        """Unmap and look at the file anew on the next use."""
        self.release()
        self._entries = -1

    def sync(self) -> None:
        """Opens the file by name, so that it may run beside the thread that uses the mapping."""
        file = self._disk.open(self.path)
        try:
            file.sync()
        finally:
            file.close()

    def _cut_to(self, entries: int) -> None:
        self._entries = entries
        # The page that is now open again may be shared with bytes reserved earlier: reserve anew.
        self._reserved_bytes = 0
        self._loaded()
