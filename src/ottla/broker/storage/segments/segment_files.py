"""The files of a segment: its log and three indexes, under their current names.

The log is opened on first use and stays open for as long as anything refers to it: a slice that is
being sent keeps its file alive although the segment may be renamed or removed meanwhile.
"""

from __future__ import annotations

import os.path

from ottla.broker.storage.names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
)
from ottla.broker.storage.segments.offset_index import OffsetIndex
from ottla.broker.storage.segments.time_index import TimeIndex
from ottla.broker.storage.segments.transaction_index import TransactionIndex
from ottla.runtime.disk import Disk, File


class SegmentFiles:
    """The names of the files and the handle of the log; the indexes open their own files."""

    __slots__ = (
        "_directory",
        "_ending",
        "_file",
        "base_offset",
        "disk",
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
        """`ending`: what follows the usual file names while compaction writes the files."""
        self.disk = disk
        self._ending = ending
        self._directory = directory
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
        return os.path.join(self._directory, offset_name(self.base_offset, suffix) + self._ending)

    @property
    def path(self) -> str:
        return self._path(LOG_SUFFIX)

    @property
    def file(self) -> File:
        """The log, which is opened on first use."""
        if self._file is None:
            self._file = self.disk.open(self.path)
        return self._file

    @property
    def opened(self) -> File | None:
        """The log, if it is open."""
        return self._file

    def move(self, directory: str) -> None:
        """Use the new path of the folder, which was renamed."""
        self._directory = directory
        self._name_indexes()

    def rename(self, ending: str) -> None:
        """Rename the files to a new ending, which may wait for the disk; `take_ending` must follow.

        The log is renamed first: while it has its old ending, all files have.
        """
        for suffix in self._existing_suffixes():
            new_name = offset_name(self.base_offset, suffix) + ending
            self.disk.rename(self._path(suffix), os.path.join(self._directory, new_name))

    def take_ending(self, ending: str) -> None:
        """Use the new ending, after the files have been renamed."""
        self._ending = ending
        self._name_indexes()

    def pin(self) -> None:
        """Open everything, so that readers need no names while these change; see `release`."""
        _ = self.file
        self.offset_index.pin()
        self.time_index.pin()
        if self.transaction_index.exists:
            self.transaction_index.all()

    def remove(self) -> None:
        """Remove the files at once, because nothing uses them."""
        self.release()
        for suffix in self._existing_suffixes():
            try:
                self.disk.remove(self._path(suffix))
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
        """Rename the files to `.deleted` and return the new names, for the removal later."""
        self.offset_index.release()
        self.time_index.release()
        renamed = []
        for path in map(self._path, SEGMENT_SUFFIXES):
            try:
                self.disk.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            renamed.append(path + DELETED_SUFFIX)
        return renamed

    def release(self) -> None:
        """Release mappings and file; both are opened again on the next use.

        The file is closed when the last reference to it is gone, perhaps a slice that is being
        sent.
        """
        self.offset_index.release()
        self.time_index.release()
        self._file = None
