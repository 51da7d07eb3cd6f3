"""One file of batches with its indexes: appending, finding, cutting.

The owner decides *when* to roll, cut or delete; a segment knows how.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence

from ottla.buffers import Buffer
from ottla.config.topic import TopicConfig
from ottla.records.header import HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP
from ottla.records.reader import read_records
from ottla.runtime.disk import Disk
from ottla.storage.batch_scan import (
    LOOKUP_BLOCK_BYTES,
    BrokenBatch,
    HeaderFields,
    find,
    scan,
)
from ottla.storage.errors import CorruptFile, CorruptLog
from ottla.storage.mapped_index import RELATIVE_OFFSET_MAX
from ottla.storage.segment_files import SegmentFiles
from ottla.storage.transaction_index import AbortedTransaction

logger = logging.getLogger("ottla.storage.recovery")

_UNKNOWN = -2
"""A timestamp not looked up yet; -1 is a timestamp that a batch may really have."""


class Segment(SegmentFiles):
    __slots__ = (
        "_bytes_since_index",
        "_index_interval_bytes",
        "_jitter_ms",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_rolling_timestamp",
        "created_ms",
        "folder_entry_synced",
        "indexes_synced",
        "is_cut",
        "size",
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
        super().__init__(
            disk,
            directory,
            base_offset,
            config.segment_index_bytes,
            has_transaction_index=has_transaction_index,
            ending=ending,
        )
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
        """Shortened since the last sync: power loss would bring the removed bytes back."""

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
        """A new, empty segment with its files. What lay under their names is overwritten."""
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
        file = disk.open(segment.path, create=True)
        if file.size():
            file.truncate(0)
        if config.preallocate:
            file.truncate(config.segment_bytes)
        file.close()  # Opened again with the first append: most partitions are idle.
        segment.offset_index.create()
        segment.time_index.create()
        if disk.exists(segment.transaction_index.path):
            disk.remove(segment.transaction_index.path)
        segment._max_timestamp = NO_TIMESTAMP
        segment._rolling_timestamp = NO_TIMESTAMP
        segment.folder_entry_synced = False
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.path!r}, size={self.size})"

    # Appending

    def write(self, buffers: Sequence[Buffer], size: int) -> int:
        """Put `size` bytes at the end; the position where they begin. All of it or nothing."""
        position = self.size
        try:
            self.file.write_at(position, buffers)
        except OSError:
            self._cut_half_written()
            raise
        self.size = position + size
        return position

    def _cut_half_written(self) -> None:
        """Best effort: bytes past `size` are never served, and recovery cuts them if they stay."""
        try:
            self.file.truncate(self.size)
        except OSError:
            pass

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Keep timestamps and indexes in step with a batch that was written."""
        if position == 0:
            self._rolling_timestamp = max_timestamp
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._bytes_since_index > self._index_interval_bytes and not self.index_is_full:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
            self._bytes_since_index = 0
            self.indexes_synced = False
        self._bytes_since_index += size

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """The marker of an aborted transaction was written."""
        if not self.transaction_index.exists:
            # The file is made now: its name must be durable before recovery may trust it.
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
        """Must the batch described go to a new segment?"""
        if self.size > config.segment_bytes - size:
            return True
        if self.size and self._waited_ms(max_timestamp, now_ms) > (
            config.segment_age_max_ms - self._jitter_ms
        ):
            return True
        return last_offset - self.base_offset > RELATIVE_OFFSET_MAX or self.index_is_full

    @property
    def index_is_full(self) -> bool:
        return self.offset_index.is_full or self.time_index.is_full

    @property
    def first_timestamp(self) -> int:
        """The greatest timestamp in the first batch, -1 if there is none."""
        if self._rolling_timestamp == _UNKNOWN:
            self._rolling_timestamp = self._first_timestamp()
        return self._rolling_timestamp

    def _waited_ms(self, max_timestamp: int, now_ms: int) -> int:
        """Age by the records' own clock where they have one, so that replays roll as they did."""
        if self._rolling_timestamp == _UNKNOWN:
            self._rolling_timestamp = self._first_timestamp()
        if self._rolling_timestamp >= 0:
            return max_timestamp - self._rolling_timestamp
        return now_ms - self.created_ms

    def _first_timestamp(self) -> int:
        try:
            for _, header in scan(self.file, 0, self.size, block_bytes=LOOKUP_BLOCK_BYTES):
                return header[8]
        except BrokenBatch as broken:
            raise CorruptLog(self.path, broken.position, broken.reason) from None
        return NO_TIMESTAMP

    # Finding

    def locate(self, offset: int) -> tuple[int, HeaderFields] | None:
        """Position and header of the first batch that reaches `offset`; `None` past the last."""
        try:
            return self._locate_by_index(offset)
        except (CorruptFile, BrokenBatch, FileNotFoundError) as error:
            logger.warning("Rebuilding the indexes of %s: %s", self.path, error)
            self.rebuild_indexes()
        try:
            return self._locate_by_index(offset)
        except BrokenBatch as broken:
            raise CorruptLog(self.path, broken.position, broken.reason) from None

    def _locate_by_index(self, offset: int) -> tuple[int, HeaderFields] | None:
        """An index is only believed as far as the log agrees: noise must not misplace a read."""
        indexed_offset, position = self.offset_index.lookup(offset)
        if position and not 0 < position < self.size:
            raise CorruptFile(
                self.offset_index.path, f"position {position} is outside of {self.size} bytes"
            )
        if not position:
            return find(self.file, 0, self.size, offset)
        batches = scan(self.file, position, self.size, block_bytes=LOOKUP_BLOCK_BYTES)
        for at, header in batches:
            if at == position and not self.base_offset <= header[0] <= indexed_offset:
                raise CorruptFile(
                    self.offset_index.path, f"no batch up to offset {indexed_offset} at {position}"
                )
            if header[0] + header[6] >= offset:
                return at, header
        return None

    def offset_beyond(self, position: int) -> int | None:
        """An offset that no batch before `position` reaches, and not far from there: that of the
        next batch with an index entry. `None` if there is none, or no sound one."""
        try:
            indexed = self.offset_index.position_from(position)
            if indexed is not None:
                for _, header in scan(self.file, indexed, self.size, block_bytes=HEADER_SIZE):
                    return header[0]
        except (CorruptFile, BrokenBatch, FileNotFoundError):
            pass
        return None

    def read_batch(self, position: int, header: HeaderFields) -> bytes:
        return self.file.read_at(position, LOG_OVERHEAD + header[1])

    def next_offset(self) -> int:
        """The offset after the last batch, found from the last index entry on.

        Raises `CorruptFile` or `BrokenBatch` where index and log do not fit together to the end.
        """
        last = self.offset_index.read_last()
        position = last[1] if last else 0
        following = self.base_offset
        for at, header in scan(self.file, position, self.size, block_bytes=LOOKUP_BLOCK_BYTES):
            if last and at == position and header[0] > self.base_offset + last[0]:
                raise CorruptFile(self.offset_index.path, f"last entry {last} contradicts the log")
            following = header[0] + header[6] + 1
        return following

    # Time

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp in the segment, -1 if there is none."""
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
        """From the last entry of the time index, checked against the batch it speaks of.

        Retention deletes by this number: a damaged index must not decide that alone.
        """
        try:
            timestamp, offset = self.time_index.last
            if timestamp == NO_TIMESTAMP and self.size:
                timestamp, offset = self._scan_max_timestamp(0)
            elif timestamp != NO_TIMESTAMP and not self._is_time_entry(timestamp, offset):
                raise CorruptFile(self.time_index.path, "last entry contradicts the log")
        except (CorruptFile, FileNotFoundError) as error:
            logger.warning("Rebuilding the indexes of %s: %s", self.path, error)
            self.rebuild_indexes()
            return
        self._max_timestamp, self._max_timestamp_offset = timestamp, offset

    def _is_time_entry(self, timestamp: int, offset: int) -> bool:
        found = self.locate(offset)
        return found is not None and found[1][8] == timestamp

    def _scan_max_timestamp(self, position: int) -> tuple[int, int]:
        timestamp, offset = NO_TIMESTAMP, self.base_offset
        try:
            for _, header in scan(self.file, position, self.size):
                if header[8] > timestamp:
                    timestamp, offset = header[8], header[0] + header[6]
        except BrokenBatch as broken:
            raise CorruptLog(self.path, broken.position, broken.reason) from None
        return timestamp, offset

    def largest_timestamp(self) -> int:
        """As retention sees it: the time of the last change where records have no timestamp."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self._disk.modified_ms(self.path)

    def find_timestamp(self, timestamp: int, first_offset: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record from `first_offset` on that is not
        older than `timestamp`."""
        found = self.locate(max(self._offset_before(timestamp), first_offset))
        if found is None:
            return None
        try:
            for at, header in scan(self.file, found[0], self.size, block_bytes=LOOKUP_BLOCK_BYTES):
                if header[8] >= timestamp:
                    for record in read_records(self.read_batch(at, header)):
                        if record.timestamp >= timestamp and record.offset >= first_offset:
                            return record.timestamp, record.offset, header[2]
        except BrokenBatch as broken:
            raise CorruptLog(self.path, broken.position, broken.reason) from None
        return None

    def _offset_before(self, timestamp: int) -> int:
        """An offset up to which nothing is younger than `timestamp`, by the time index."""
        try:
            indexed, offset = self.time_index.lookup(timestamp)
            if indexed != NO_TIMESTAMP and not self._is_time_entry(indexed, offset):
                raise CorruptFile(self.time_index.path, f"no batch ends {offset} at {indexed} ms")
        except (CorruptFile, FileNotFoundError) as error:
            logger.warning("Rebuilding the indexes of %s: %s", self.path, error)
            self.rebuild_indexes()
            _, offset = self.time_index.lookup(timestamp)
        return offset

    # Changing the files

    def rebuild_indexes(self) -> None:
        """Offset and time index anew from the batch headers; the log itself is not touched."""
        self.offset_index.forget()
        self.time_index.forget()
        self.offset_index.create()
        self.time_index.create()
        self.reset_notes()
        end = self.size
        try:
            for position, header in scan(self.file, 0, end):
                self.note(position, LOG_OVERHEAD + header[1], header[0] + header[6], header[8])
        except BrokenBatch as broken:
            # What lies before can be served, and only reads that come to this place will fail.
            logger.error("%s is damaged: %s", self.path, broken)
        self.finish_indexes()

    def reset_notes(self) -> None:
        """Forget what `note` gathered, before all batches are noted again."""
        self._bytes_since_index = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self._rolling_timestamp = NO_TIMESTAMP
        self.indexes_synced = False

    def finish_indexes(self) -> None:
        """The last time entry, and both files cut to their entries: rolled, closed or rebuilt."""
        if self.size and self._max_timestamp != _UNKNOWN and self.time_index.has_room:
            self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
            self.indexes_synced = False
        self.offset_index.trim()
        self.time_index.trim()
        self._bytes_since_index = 0

    def seal(self, *, preallocated: bool) -> None:
        """No more appends will come."""
        self.finish_indexes()
        if preallocated:
            self.file.truncate(self.size)

    def truncate_to(self, offset: int) -> int:
        """Remove the batch with `offset` and all after it; the first offset that is gone."""
        found = self.locate(offset)
        position, first_gone = (found[0], found[1][0]) if found else (self.size, offset)
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
        if size < self.size or self.file.size() != size:
            self.file.truncate(size)
            self.is_cut = True
        self.size = size

    def sync(self, *, with_indexes: bool) -> None:
        """Make the batches durable, and the indexes of a segment that recovery may skip.

        Offset and time index need no more than that: recovery scans the active segment, and builds
        what it finds missing. Aborted transactions are not looked for in what was flushed: they
        must be durable with the batches.
        """
        self.is_cut = False
        self.file.sync()
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
    """Spreads the rolls of many partitions over time; drawn from the name, so it needs no dice."""
    bound = min(config.segment_jitter_ms, config.segment_ms)
    if bound <= 0:
        return 0
    return zlib.crc32(f"{directory}/{base_offset}".encode()) % bound
