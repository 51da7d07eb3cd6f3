"""The work on one log: learn the last offset of each key, then copy what is still needed.

It goes step by step and says after each how much was read and written, so that whoever runs it can
slow it down or stop it between two steps: nothing but `.cleaned` files is ever written, and these
are removed when the log is opened the next time.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ottla.buffers import Buffer
from ottla.protocol.errors import KafkaError
from ottla.records.engine import KeyOffsets
from ottla.records.header import CONTROL_BIT
from ottla.runtime.disk import Disk
from ottla.storage.batch_scan import BrokenBatch, HeaderFields, verify
from ottla.storage.cleaner.batch_filter import BatchFilter, Kept, records_of
from ottla.storage.cleaner.grouping import Source, group_segments
from ottla.storage.cleaner.job import (
    CleanedGroup,
    CleaningJob,
    CleaningStats,
    Failed,
    Finished,
    Progress,
    SegmentFiles,
)
from ottla.storage.cleaner.transactions import CleanedTransactions
from ottla.storage.errors import CorruptFile, CorruptLog
from ottla.storage.names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
)
from ottla.storage.segment import Segment
from ottla.storage.transaction_index import AbortedTransaction, TransactionIndex

Step: TypeAlias = Progress | CleanedGroup | Finished

WRITE_BYTES = 1024 * 1024
WRITE_BUFFERS_MAX = 512
_INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)


def compact(disk: Disk, job: CleaningJob) -> Iterator[Step]:
    """Ends with `Finished`. Before it goes on after a `CleanedGroup`, that may be put into the log
    or not: the groups do not depend on each other."""
    return Compaction(disk, job).run()


def attempt(disk: Disk, job: CleaningJob) -> Iterator[Step | Failed]:
    """The same, with what goes wrong as a last word that can be sent to another process."""
    try:
        yield from compact(disk, job)
    except OSError as error:
        yield Failed(str(error), error.errno)
    except (KafkaError, CorruptFile, ValueError) as error:
        yield Failed(str(error), None)


class Compaction:
    def __init__(self, disk: Disk, job: CleaningJob) -> None:
        self._disk = disk
        self._job = job
        self._map = KeyOffsets(job.memory.map_bytes, job.memory.load_factor)
        self._aborted = self._read_aborted()
        self._stats = CleaningStats()

    def run(self) -> Iterator[Step]:
        yield from self._build_map()
        end_offset = self._map.end_offset
        self._stats.map_utilization = self._map.utilization
        touched = [self._source(s) for s in self._job.segments if s.base_offset < end_offset]
        if touched:
            transactions = CleanedTransactions(self._aborted, touched[0].base_offset)
            kept = BatchFilter(self._job, self._map, transactions, self._stats)
            for group in group_segments(touched, self._job.config, self._job.uncleanable_offset):
                yield from self._clean_group(group, kept)
        yield Finished(end_offset, self._stats)

    # The map

    def _build_map(self) -> Iterator[Progress]:
        """Of the dirty part, or as much of it as the map has room for."""
        job = self._job
        upper_offsets = [s.base_offset for s in job.segments[1:]] + [job.uncleanable_offset]
        transactions = CleanedTransactions(self._aborted, job.first_dirty_offset)
        self._map.end_offset = job.first_dirty_offset
        for segment, upper_offset in zip(job.segments, upper_offsets, strict=True):
            if upper_offset <= job.first_dirty_offset:
                continue
            for progress in self._map_segment(segment, transactions):
                if progress is None:
                    return
                yield progress
            # There may be a gap at its end.
            self._map.end_offset = max(self._map.end_offset, upper_offset)

    def _map_segment(
        self, segment: SegmentFiles, transactions: CleanedTransactions
    ) -> Iterator[Progress | None]:
        """Ends with None if the map is full."""
        waiting = 0
        for _, header, batch in self._batches(segment):
            last_offset = header[0] + header[6]
            waiting += len(batch)
            if last_offset >= self._job.first_dirty_offset:
                missed_offset = self._map_batch(header, batch, transactions)
                if missed_offset is not None:
                    self._map.end_offset = missed_offset
                    yield None
                self._map.end_offset = last_offset + 1
            if waiting >= self._job.memory.block_bytes:
                self._stats.map_bytes_read += waiting
                yield Progress(waiting)
                waiting = 0
        self._stats.map_bytes_read += waiting
        yield Progress(waiting)

    def _map_batch(
        self, header: HeaderFields, batch: memoryview, transactions: CleanedTransactions
    ) -> int | None:
        """The first offset for which there was no room."""
        self._stats.map_records_read += header[12]
        if header[5] & CONTROL_BIT:
            transactions.marker_read(header, batch)
            return None
        if transactions.batch_read(header) or not header[12]:
            return None
        return self._map.put(records_of(header, batch), header[12], header[0])

    # The copy

    def _clean_group(self, group: list[Source], kept: BatchFilter) -> Iterator[Step]:
        writer = GroupWriter(self._disk, self._job, group)
        filled = [segment for segment in group if segment.size]
        changed = len(group) > 1
        for segment in filled:
            position = waiting = 0
            for _, header, batch in self._batches(segment):
                position += len(batch)
                waiting += len(batch)
                is_last = segment is filled[-1] and position == segment.size
                result = kept.keep(header, batch, is_last=is_last)
                self._stats.records_read += header[12]
                if result is not None:
                    writer.add(header, result)
                    self._stats.records_written += result.record_count
                changed = changed or result is None or result.batch is not batch
                if waiting >= self._job.memory.block_bytes:
                    yield self._note_copied(waiting, writer.take_written())
                    waiting = 0
            yield self._note_copied(waiting, writer.take_written())
        if not changed:
            writer.discard()
            return
        cleaned = writer.finish()
        yield self._note_copied(0, writer.take_written())
        yield cleaned

    def _note_copied(self, read: int, written: int) -> Progress:
        self._stats.bytes_read += read
        self._stats.bytes_written += written
        return Progress(read + written)

    # Files

    def _source(self, segment: SegmentFiles) -> Source:
        index_paths = [self._path(segment.base_offset, suffix) for suffix in _INDEX_SUFFIXES]
        sizes = [self._disk.size(path) if self._disk.exists(path) else 0 for path in index_paths]
        log_path = self._path(segment.base_offset, LOG_SUFFIX)
        modified_ms = self._disk.modified_ms(log_path)
        return Source(segment.base_offset, segment.size, sizes[0], sizes[1], modified_ms)

    def _batches(
        self, segment: SegmentFiles | Source
    ) -> Iterator[tuple[int, HeaderFields, memoryview]]:
        """Each with its checksum verified: damage must not be copied under a new checksum."""
        path = self._path(segment.base_offset, LOG_SUFFIX)
        file = self._disk.open(path)
        try:
            yield from verify(file, segment.size, block_bytes=self._job.memory.block_bytes)
        except BrokenBatch as broken:
            raise CorruptLog(path, broken.position, broken.reason) from None
        finally:
            file.close()

    def _read_aborted(self) -> list[AbortedTransaction]:
        bases = [s.base_offset for s in self._job.segments if s.has_transaction_index]
        aborted: list[AbortedTransaction] = []
        for base_offset in (*bases, *self._job.later_segments):
            path = self._path(base_offset, TRANSACTION_INDEX_SUFFIX)
            aborted += TransactionIndex(self._disk, path, base_offset, exists=True).all()
        return aborted

    def _path(self, base_offset: int, suffix: str) -> str:
        return os.path.join(self._job.directory, offset_name(base_offset, suffix))


class GroupWriter:
    """The new segment of a group, under its `.cleaned` name until it is in the log."""

    def __init__(self, disk: Disk, job: CleaningJob, group: Sequence[Source]) -> None:
        self._disk = disk
        self._job = job
        self._group = group
        base_offset = group[0].base_offset
        remove_cleaned(disk, job.directory, base_offset)
        config = replace(job.config, preallocate=False)
        self._segment = Segment.create(
            disk, job.directory, base_offset, config, job.now_ms, ending=CLEANED_SUFFIX
        )
        self._buffers: list[Buffer] = []
        self._waiting: list[tuple[int, int, int]] = []
        self._waiting_bytes = 0
        self._written = 0

    def add(self, header: HeaderFields, kept: Kept) -> None:
        size = len(kept.batch)
        self._buffers.append(kept.batch)
        self._waiting.append((size, header[0] + header[6], kept.max_timestamp))
        self._waiting_bytes += size
        if kept.aborted is not None:
            self._segment.note_aborted(kept.aborted)
        if self._waiting_bytes >= WRITE_BYTES or len(self._buffers) >= WRITE_BUFFERS_MAX:
            self._write()

    def _write(self) -> None:
        if not self._buffers:
            return
        segment = self._segment
        position = segment.write(self._buffers, self._waiting_bytes)
        for size, last_offset, max_timestamp in self._waiting:
            segment.note(position, size, last_offset, max_timestamp)
            position += size
        self._written += self._waiting_bytes
        self._buffers, self._waiting, self._waiting_bytes = [], [], 0

    def take_written(self) -> int:
        """Bytes written since the last call."""
        written, self._written = self._written, 0
        return written

    def finish(self) -> CleanedGroup:
        """Whole and durable. The time of its last change is that of the youngest it replaces."""
        self._write()
        segment = self._segment
        segment.seal(preallocated=False)
        segment.indexes_synced = False
        segment.sync(with_indexes=True)
        segment.release()
        self._disk.set_modified_ms(segment.path, self._group[-1].modified_ms)
        self._disk.sync_dir(self._job.directory)
        return CleanedGroup(
            segment.base_offset,
            tuple(source.base_offset for source in self._group),
            segment.size,
            segment.transaction_index.exists,
        )

    def discard(self) -> None:
        self._segment.release()
        remove_cleaned(self._disk, self._job.directory, self._segment.base_offset)


def remove_cleaned(disk: Disk, directory: str, base_offset: int) -> None:
    """What an attempt left behind that was given up."""
    for suffix in SEGMENT_SUFFIXES:
        try:
            disk.remove(os.path.join(directory, offset_name(base_offset, suffix) + CLEANED_SUFFIX))
        except FileNotFoundError:
            pass
