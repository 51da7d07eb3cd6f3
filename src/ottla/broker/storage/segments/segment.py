"""A segment: a file of batches with its indexes. Appends, lookups, truncation."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress

from ottla.broker.storage.errors import CorruptFile, CorruptLog
from ottla.broker.storage.segments.batch_scan import (
    LOOKUP_BLOCK_BYTES,
    BrokenBatch,
    HeaderFields,
    find,
    scan,
)
from ottla.broker.storage.segments.mapped_index import RELATIVE_OFFSET_MAX
from ottla.broker.storage.segments.segment_files import SegmentFiles
from ottla.broker.storage.segments.transaction_index import AbortedTransaction
from ottla.buffers import Buffer
from ottla.config.topic import TopicConfig
from ottla.logs import get_logger
from ottla.records.header import HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP
from ottla.records.header_fields import BASE_OFFSET, BATCH_LENGTH, LAST_OFFSET_DELTA, MAX_TIMESTAMP
from ottla.runtime.disk import Disk

logger = get_logger("ottla.storage.recovery")

HEADERS_PER_LOOKUP = 256
_UNKNOWN = -2
"""A timestamp that was not looked up yet; -1 is a valid timestamp of a batch."""


class Segment:
    """The batches of one file. The owner decides when to roll, truncate or delete."""

    __slots__ = (
        "_bytes_since_index",
        "_index_interval_bytes",
        "_jitter_ms",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_rolling_timestamp",
        "base_offset",
        "created_ms",
        "files",
        "folder_entry_synced",
        "indexes_synced",
        "is_cut",
        "offset_index",
        "size",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: TopicConfig,
        *,
        size: int,
        created_ms: int,
        has_transaction_index: bool,
        ending: str = "",
    ) -> None:
        files = SegmentFiles(
            disk,
            directory,
            base_offset,
            config.segment_index_bytes,
            has_transaction_index=has_transaction_index,
            ending=ending,
        )
        self.files = files
        self.offset_index = files.offset_index
        self.time_index = files.time_index
        self.transaction_index = files.transaction_index
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self._index_interval_bytes = config.index_interval_bytes
        self._jitter_ms = _jitter_ms(directory, base_offset, config)
        self._bytes_since_index = 0
        self._max_timestamp = _UNKNOWN
        self._max_timestamp_offset = base_offset
        self._rolling_timestamp = _UNKNOWN
        self.folder_entry_synced = True
        self.indexes_synced = True
        self.is_cut = False
        """True if it was truncated since the last sync: a power failure would bring the removed
        bytes back."""

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: TopicConfig,
        now_ms: int,
        *,
        ending: str = "",
    ) -> Segment:
        """Create a new, empty segment with its files. Existing files of these names are
        overwritten."""
        segment = cls(
            disk,
            directory,
            base_offset,
            config,
            size=0,
            created_ms=now_ms,
            has_transaction_index=False,
            ending=ending,
        )
        file = disk.open(segment.files.path, create=True)
        if file.size():
            file.truncate(0)
        if config.preallocate:
            file.truncate(config.segment_bytes)
        file.close()  # opened again with the first append: most partitions are idle
        segment.offset_index.create()
        segment.time_index.create()
        if disk.exists(segment.transaction_index.path):
            disk.remove(segment.transaction_index.path)
        segment._max_timestamp = NO_TIMESTAMP
        segment._rolling_timestamp = NO_TIMESTAMP
        segment.folder_entry_synced = False
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.files.path!r}, size={self.size})"

    # Appending

    def write(self, buffers: Sequence[Buffer], size: int) -> int:
        """Append `size` bytes and return their position. All of it is written or nothing."""
        position = self.size
        try:
            self.files.file.write_at(position, buffers)
        except OSError:
            # Best effort: bytes past `size` are never served, and recovery removes them if they
            # stay.
            with suppress(OSError):
                self.files.file.truncate(position)
            raise
        self.size = position + size
        return position

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Update timestamps and indexes for a batch that was written."""
        if position == 0:
            self._rolling_timestamp = max_timestamp
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._bytes_since_index > self._index_interval_bytes and not (
            self.offset_index.is_full or self.time_index.is_full
        ):
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
            self._bytes_since_index = 0
            self.indexes_synced = False
        self._bytes_since_index += size

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """Add the aborted transaction of a marker that was written."""
        if not self.transaction_index.exists:
            # This creates the file: its name must be durable before recovery may trust it.
            self.folder_entry_synced = False
        self.transaction_index.append(aborted)
        self.indexes_synced = False

    def should_roll(
        self,
        config: TopicConfig,
        size: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> bool:
        """True if the described batch must go to a new segment."""
        if self.size > config.segment_bytes - size:
            return True
        if self.size:
            # The age is by the records' timestamps if they have any, so that replayed data rolls as
            # before.
            first = self._rolling_timestamp
            if first == _UNKNOWN:
                first = self.first_timestamp
            age_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
            if age_ms > config.segment_age_max_ms - self._jitter_ms:
                return True
        return (
            last_offset - self.base_offset > RELATIVE_OFFSET_MAX
            or self.offset_index.is_full
            or self.time_index.is_full
        )

    @property
    def first_timestamp(self) -> int:
        """The greatest timestamp in the first batch; -1 if there is none."""
        if self._rolling_timestamp == _UNKNOWN:
            self._rolling_timestamp = self._scan_first_timestamp()
        return self._rolling_timestamp

    def _scan_first_timestamp(self) -> int:
        try:
            for _, header in scan(self.files.file, 0, self.size, block_bytes=LOOKUP_BLOCK_BYTES):
                return header[MAX_TIMESTAMP]
        except BrokenBatch as broken:
            raise CorruptLog(self.files.path, broken.position, broken.reason) from None
        return NO_TIMESTAMP

    # Finding

    def locate(self, offset: int) -> tuple[int, HeaderFields] | None:
        """Return position and header of the first batch whose last offset is at least `offset`;
        `None` if there is none."""
        try:
            return self._locate_by_index(offset)
        except (CorruptFile, BrokenBatch, FileNotFoundError) as error:
            logger.warning("Rebuilding the indexes of %s: %s", self.files.path, error)
            self.rebuild_indexes()
        try:
            return self._locate_by_index(offset)
        except BrokenBatch as broken:
            raise CorruptLog(self.files.path, broken.position, broken.reason) from None

    def _locate_by_index(self, offset: int) -> tuple[int, HeaderFields] | None:
        """Find a batch by the index, checked against the log: a damaged index must not misplace a
        read."""
        indexed_offset, position = self.offset_index.lookup(offset)
        if position and not 0 < position < self.size:
            raise CorruptFile(
                self.offset_index.path, f"position {position} is outside of {self.size} bytes"
            )
        if not position:
            return find(self.files.file, 0, self.size, offset)
        batches = scan(self.files.file, position, self.size, block_bytes=LOOKUP_BLOCK_BYTES)
        for at, header in batches:
            if at == position and not self.base_offset <= header[BASE_OFFSET] <= indexed_offset:
                raise CorruptFile(
                    self.offset_index.path, f"no batch up to offset {indexed_offset} at {position}"
                )
            if header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] >= offset:
                return at, header
        return None

    def offset_beyond(self, position: int) -> int | None:
        """Return an offset that no batch before `position` reaches, and not far from there: that of
        the next batch with an index entry. `None` if there is none, or no valid one."""
        try:
            indexed = self.offset_index.position_from(position)
            if indexed is not None:
                for _, header in scan(self.files.file, indexed, self.size, block_bytes=HEADER_SIZE):
                    return header[BASE_OFFSET]
        except (CorruptFile, BrokenBatch, FileNotFoundError):
            pass
        return None

    def read_batch(self, position: int, header: HeaderFields) -> bytes:
        return self.files.file.read_at(position, LOG_OVERHEAD + header[BATCH_LENGTH])

    def next_offset(self) -> int:
        """Return the offset after the last batch, found from the last index entry on.

        Raises `CorruptFile` or `BrokenBatch` if index and log do not agree up to the end.
        """
        last = self.offset_index.read_last()
        position = last[1] if last else 0
        following = self.base_offset
        for at, header in scan(
            self.files.file, position, self.size, block_bytes=LOOKUP_BLOCK_BYTES
        ):
            if last and at == position and header[BASE_OFFSET] > self.base_offset + last[0]:
                raise CorruptFile(self.offset_index.path, f"last entry {last} contradicts the log")
            following = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
        return following

    # Time

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp in the segment; -1 if there is none."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch with the greatest timestamp."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp_offset

    def _load_max_timestamp(self) -> None:
        """Read it from the last entry of the time index, checked against the batch of that entry.

        Retention deletes by this timestamp, so a damaged index alone must not decide it.
        """
        try:
            timestamp, offset = self.time_index.last
            if timestamp == NO_TIMESTAMP and self.size:
                timestamp, offset = self._scan_max_timestamp(0)
            elif timestamp != NO_TIMESTAMP and not self._is_time_entry(timestamp, offset):
                raise CorruptFile(self.time_index.path, "last entry contradicts the log")
        except (CorruptFile, FileNotFoundError) as error:
            logger.warning("Rebuilding the indexes of %s: %s", self.files.path, error)
            self.rebuild_indexes()
            return
        self._max_timestamp, self._max_timestamp_offset = timestamp, offset

    def _is_time_entry(self, timestamp: int, offset: int) -> bool:
        found = self.locate(offset)
        if found is None:
            return False
        _, header = found
        return header[MAX_TIMESTAMP] == timestamp

    def _scan_max_timestamp(self, position: int) -> tuple[int, int]:
        timestamp, offset = NO_TIMESTAMP, self.base_offset
        try:
            for _, header in scan(self.files.file, position, self.size):
                if header[MAX_TIMESTAMP] > timestamp:
                    timestamp, offset = (
                        header[MAX_TIMESTAMP],
                        header[BASE_OFFSET] + header[LAST_OFFSET_DELTA],
                    )
        except BrokenBatch as broken:
            raise CorruptLog(self.files.path, broken.position, broken.reason) from None
        return timestamp, offset

    def largest_timestamp(self) -> int:
        """Return the timestamp that retention uses: the modification time if records have no
        timestamp."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.files.disk.modified_ms(self.files.path)

    def find_timed_batch(
        self, timestamp: int, first_offset: int
    ) -> tuple[int, HeaderFields] | int | None:
        """Return position and header of the first batch from `first_offset` on whose header claims
        a record not older than `timestamp`; None if there is none; or the offset from which to
        continue, after `HEADERS_PER_LOOKUP` batches without one."""
        found = self.locate(max(self._offset_before(timestamp), first_offset))
        if found is None:
            return None
        position, _ = found
        batches = scan(self.files.file, position, self.size, block_bytes=LOOKUP_BLOCK_BYTES)
        try:
            for number, (at, header) in enumerate(batches):
                if header[MAX_TIMESTAMP] >= timestamp:
                    return at, header
                if number >= HEADERS_PER_LOOKUP:
                    return header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
        except BrokenBatch as broken:
            raise CorruptLog(self.files.path, broken.position, broken.reason) from None
        return None

    def _offset_before(self, timestamp: int) -> int:
        """Return an offset up to which, by the time index, no record is younger than
        `timestamp`."""
        try:
            indexed, offset = self.time_index.lookup(timestamp)
            if indexed != NO_TIMESTAMP and not self._is_time_entry(indexed, offset):
                raise CorruptFile(self.time_index.path, f"no batch ends {offset} at {indexed} ms")
        except (CorruptFile, FileNotFoundError) as error:
            logger.warning("Rebuilding the indexes of %s: %s", self.files.path, error)
            self.rebuild_indexes()
            _, offset = self.time_index.lookup(timestamp)
        return offset

    # Changing the files

    def rebuild_indexes(self) -> None:
        """Rebuild offset and time index from the batch headers; the log itself is not changed."""
        self.offset_index.forget()
        self.time_index.forget()
        self.offset_index.create()
        self.time_index.create()
        self.reset_notes()
        end = self.size
        try:
            for position, header in scan(self.files.file, 0, end):
                self.note(
                    position,
                    LOG_OVERHEAD + header[BATCH_LENGTH],
                    header[BASE_OFFSET] + header[LAST_OFFSET_DELTA],
                    header[MAX_TIMESTAMP],
                )
        except BrokenBatch as broken:
            # The batches before it can be served, and only reads that reach this position will
            # fail.
            logger.error("%s is damaged: %s", self.files.path, broken)
        self.finish_indexes()

    def reset_notes(self) -> None:
        """Reset what `note` collected, before all batches are noted again."""
        self._bytes_since_index = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self._rolling_timestamp = NO_TIMESTAMP
        self.indexes_synced = False

    def finish_indexes(self) -> None:
        """Add the last time entry and cut both files to their entries: when rolled, closed or
        rebuilt."""
        if self.size and self._max_timestamp != _UNKNOWN and self.time_index.has_room:
            self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
            self.indexes_synced = False
        self.offset_index.trim()
        self.time_index.trim()
        self._bytes_since_index = 0

    def seal(self, *, preallocated: bool) -> None:
        """Finish the segment: no more appends will come."""
        self.finish_indexes()
        if preallocated:
            self.files.file.truncate(self.size)

    def truncate_to(self, offset: int) -> int:
        """Remove the batch that contains `offset` and all after it; return the first removed
        offset."""
        found = self.locate(offset)
        position, first_gone = self.size, offset
        if found is not None:
            position, header = found
            first_gone = header[BASE_OFFSET]
        self.offset_index.truncate_to(min(offset, first_gone))
        self.time_index.truncate_to(min(offset, first_gone))
        self.transaction_index.truncate_to(offset)
        self.truncate_bytes(position)
        self._bytes_since_index = 0
        self.indexes_synced = False
        self._rolling_timestamp = _UNKNOWN if position else NO_TIMESTAMP
        timestamp, at = self.time_index.last
        scanned = self._scan_max_timestamp(self.offset_index.lookup(at)[1])
        self._max_timestamp, self._max_timestamp_offset = (
            scanned if scanned[0] > timestamp else (timestamp, at)
        )
        return first_gone

    def truncate_bytes(self, size: int) -> None:
        if size < self.size or self.files.file.size() != size:
            self.files.file.truncate(size)
            self.is_cut = True
        self.size = size

    def sync(self, *, with_indexes: bool) -> None:
        """Make the batches durable, and also the indexes of a segment that recovery may skip.

        For the active segment, offset and time index need no sync: recovery scans it and rebuilds
        them. The transaction index must be durable with the batches, because recovery does not look
        for aborted transactions in flushed data.
        """
        self.is_cut = False
        self.files.file.sync()
        self.transaction_index.sync()
        if with_indexes and not self.indexes_synced:
            self.sync_indexes()

    def sync_indexes(self) -> None:
        self.indexes_synced = True
        for index in (self.offset_index, self.time_index):
            if index.entries:
                index.sync()
        self.transaction_index.sync()


def _jitter_ms(directory: str, base_offset: int, config: TopicConfig) -> int:
    """Spreads the rolls of many partitions over time; derived from the name, so it is not
    random."""
    bound = min(config.segment_jitter_ms, config.segment_ms)
    if bound <= 0:
        return 0
    return zlib.crc32(f"{directory}/{base_offset}".encode()) % bound
