"""The aborted transactions whose markers are in a segment, for readers of committed data.

Entries of 34 bytes: version int16 (0), producer id, first offset, last offset (of the marker) and
last stable offset after the marker, all int64. The file is created with its first entry.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.broker.storage.errors import CorruptFile
from ottla.runtime.disk import Disk

_ENTRY = struct.Struct(">hqqqq")
VERSION = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Read as a whole: aborted transactions are few, and a lookup has to see most of them
    anyway."""

    __slots__ = ("_aborted", "_disk", "_synced", "base_offset", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int, *, exists: bool) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._aborted: list[AbortedTransaction] | None = None if exists else []
        self._synced = True

    @property
    def exists(self) -> bool:
        return self._aborted is None or bool(self._aborted)

    def all(self) -> list[AbortedTransaction]:
        if self._aborted is None:
            self._aborted = self._read()
        return self._aborted

    def _read(self) -> list[AbortedTransaction]:
        data = self._disk.read_bytes(self.path)
        whole = len(data) - len(data) % _ENTRY.size
        found = []
        for version, *fields in _ENTRY.iter_unpack(memoryview(data)[:whole]):
            if version > VERSION:
                raise CorruptFile(self.path, f"entry of unknown version {version}")
            found.append(AbortedTransaction(*fields))
        return found

    def check(self) -> None:
        for entry in self.all():
            if entry.last_offset < self.base_offset:
                raise CorruptFile(self.path, f"{entry} ends before the segment begins")

    def append(self, aborted: AbortedTransaction) -> None:
        entries = self.all()
        if entries and entries[-1].last_offset >= aborted.last_offset:
            raise ValueError(f"{aborted} does not follow {entries[-1]} in {self.path}")
        self._synced = False
        file = self._disk.open(self.path, create=True)
        try:
            file.write_at(len(entries) * _ENTRY.size, [_ENTRY.pack(VERSION, *aborted)])
        finally:
            file.close()
        entries.append(aborted)

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions that end at or after `offset`."""
        if not self.exists:
            return
        entries = self.all()
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) < len(entries):
            self._synced = False
            file = self._disk.open(self.path)
            try:
                file.truncate(len(kept) * _ENTRY.size)
            finally:
                file.close()
            self._aborted = kept

    def reset(self) -> None:
        """Empty it, before it is rebuilt from the log."""
        if self.exists and self._disk.exists(self.path):
            self._synced = False
            file = self._disk.open(self.path)
            try:
                file.truncate(0)
            finally:
                file.close()
        self._aborted = []

    def sync(self) -> None:
        """Sync the file if it has changed. That includes emptying: old entries must not come
        back."""
        if not self._synced and self._disk.exists(self.path):
            self._synced = True
            file = self._disk.open(self.path)
            try:
                file.sync()
            finally:
                file.close()

    def overlapping(self, offset: int, upper_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that overlap `offset` to below `upper_offset`, and whether later
        indexes cannot have more."""
        found = []
        for entry in self.all():
            if entry.last_offset >= offset and entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found, True
        return found, False
