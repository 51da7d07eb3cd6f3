"""The files of a segment: its log and three indexes, by the names they have now.

The log is opened on first use and stays open for as long as anything holds it: a slice on its way
to a socket keeps its file alive although the segment may meanwhile be renamed or removed.
"""

from __future__ import annotations

import os.path

from ottla.runtime.disk import Disk, File
from ottla.storage.names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
)
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.time_index import TimeIndex
from ottla.storage.transaction_index import TransactionIndex


class SegmentFiles:
    __slots__ = (
        "_disk",
        "_ending",
        "_file",
        "base_offset",
        "directory",
        "offset_index",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        index_bytes: int,
        *,
        has_transaction_index: bool,
        ending: str = "",
    ) -> None:
        """`ending`: what follows the usual names of the files while compaction makes them."""
        self._disk = disk
        self._ending = ending
        self.directory = directory
        self.base_offset = base_offset
        self._file: File | None = None
        self.offset_index = OffsetIndex(
            disk, self._path(OFFSET_INDEX_SUFFIX), base_offset, index_bytes
        )
        self.time_index = TimeIndex(disk, self._path(TIME_INDEX_SUFFIX), base_offset, index_bytes)
        self.transaction_index = TransactionIndex(
            disk, self._path(TRANSACTION_INDEX_SUFFIX), base_offset, exists=has_transaction_index
        )

    def _path(self, suffix: str) -> str:
        return os.path.join(self.directory, offset_name(self.base_offset, suffix) + self._ending)

    @property
    def path(self) -> str:
        return self._path(LOG_SUFFIX)

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    def move(self, directory: str) -> None:
        """The folder was renamed."""
        self.directory = directory
        self._name_indexes()

    def rename_files(self, ending: str) -> None:
        """The first half of a change of ending, which waits for the disk: `take_ending` follows.

        The log goes first: while it has its old ending, all have.
        """
        for suffix in self._existing_suffixes():
            new_name = offset_name(self.base_offset, suffix) + ending
            self._disk.rename(self._path(suffix), os.path.join(self.directory, new_name))

    def take_ending(self, ending: str) -> None:
        """The files have been renamed."""
        self._ending = ending
        self._name_indexes()

    def pin(self) -> None:
        """Open everything, so that readers need no names while these change; see `release`."""
        _ = self.file
        self.offset_index.pin()
        self.time_index.pin()
        if self.transaction_index.exists:
            self.transaction_index.all()

    def remove_files(self) -> None:
        """At once: nobody knows them."""
        self.release()
        for suffix in self._existing_suffixes():
            try:
                self._disk.remove(self._path(suffix))
            except FileNotFoundError:
                pass

    def _existing_suffixes(self) -> list[str]:
        return [
            suffix
            for suffix in SEGMENT_SUFFIXES
            if suffix != TRANSACTION_INDEX_SUFFIX or self.transaction_index.exists
        ]

    def _name_indexes(self) -> None:
        self.offset_index.path = self._path(OFFSET_INDEX_SUFFIX)
        self.time_index.path = self._path(TIME_INDEX_SUFFIX)
        self.transaction_index.path = self._path(TRANSACTION_INDEX_SUFFIX)

    def mark_deleted(self) -> list[str]:
        """Give the files their `.deleted` names; these names, for the removal later."""
        self.offset_index.release()
        self.time_index.release()
        renamed = []
        for path in map(self._path, SEGMENT_SUFFIXES):
            try:
                self._disk.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            renamed.append(path + DELETED_SUFFIX)
        return renamed

    def release(self) -> None:
        """Let go of mappings and file; both come back on the next use.

        The file is not closed here but by the last one who holds it, perhaps a slice being sent.
        """
        self.offset_index.release()
        self.time_index.release()
        self._file = None
