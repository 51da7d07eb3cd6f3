"""Compacts one log: collects the last offset of each key, then copies the records still needed.

It works step by step and reports after each how much was read and written, so that the caller can
slow it down or stop it between two steps. It only ever writes `.cleaned` files, which are removed
when the log is opened the next time.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ottla.broker.storage.cleaner.batch_filter import BatchFilter, Kept, records_of
from ottla.broker.storage.cleaner.grouping import Source, group_segments
from ottla.broker.storage.cleaner.job import (
    CleanedGroup,
    CleaningJob,
    CleaningStats,
    Failed,
    Finished,
    JobSegment,
    Progress,
)
from ottla.broker.storage.cleaner.transactions import CleanedTransactions
from ottla.broker.storage.errors import CorruptFile, CorruptLog
from ottla.broker.storage.names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
)
from ottla.broker.storage.segments.batch_scan import BrokenBatch, HeaderFields, verify
from ottla.broker.storage.segments.segment import Segment
from ottla.broker.storage.segments.transaction_index import AbortedTransaction, TransactionIndex
from ottla.buffers import Buffer
from ottla.protocol.errors import KafkaError
from ottla.records.engine import KeyOffsets
from ottla.records.header import CONTROL_BIT
from ottla.records.header_fields import ATTRIBUTES, BASE_OFFSET, LAST_OFFSET_DELTA, RECORD_COUNT
from ottla.runtime.disk import Disk

Step: TypeAlias = Progress | CleanedGroup | Finished

WRITE_BYTES = 1024 * 1024
WRITE_BUFFERS_MAX = 512
_INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)


def compact(disk: Disk, job: CleaningJob) -> Iterator[Step]:
    """Yield the steps; the last one is `Finished`. After a `CleanedGroup` the caller may put the
    group into the log or not: the groups do not depend on each other."""
    return Compaction(disk, job).run()


def attempt(disk: Disk, job: CleaningJob) -> Iterator[Step | Failed]:
    """Like `compact`, but yields errors as a last step that can be sent to another process."""
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

    # The offset map

    def _build_map(self) -> Iterator[Progress]:
        """Build the offset map of the dirty part, or of as much of it as fits into the map."""
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
            # There may be a gap at the end of the segment.
            self._map.end_offset = max(self._map.end_offset, upper_offset)

    def _map_segment(
        self, segment: JobSegment, transactions: CleanedTransactions
    ) -> Iterator[Progress | None]:
        """Yield the progress; None at the end if the map is full."""
        waiting = 0
        for _, header, batch in self._batches(segment):
            last_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
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
        """Add a batch to the map; return the first offset for which there was no room, if any."""
        self._stats.map_records_read += header[RECORD_COUNT]
        if header[ATTRIBUTES] & CONTROL_BIT:
            transactions.marker_read(header, batch)
            return None
        if transactions.batch_read(header) or not header[RECORD_COUNT]:
            return None
        return self._map.put(records_of(header, batch), header[RECORD_COUNT], header[BASE_OFFSET])

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
                self._stats.records_read += header[RECORD_COUNT]
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

    def _source(self, segment: JobSegment) -> Source:
        index_paths = [self._path(segment.base_offset, suffix) for suffix in _INDEX_SUFFIXES]
        sizes = [self._disk.size(path) if self._disk.exists(path) else 0 for path in index_paths]
        log_path = self._path(segment.base_offset, LOG_SUFFIX)
        modified_ms = self._disk.modified_ms(log_path)
        return Source(segment.base_offset, segment.size, sizes[0], sizes[1], modified_ms)

    def _batches(
        self, segment: JobSegment | Source
    ) -> Iterator[tuple[int, HeaderFields, memoryview]]:
        """Yield the batches with verified checksums: damage must not be copied under a new
        checksum."""
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
    """The new segment of a group, under its `.cleaned` name until it is put into the log."""

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
        self._waiting.append(
            (size, header[BASE_OFFSET] + header[LAST_OFFSET_DELTA], kept.max_timestamp)
        )
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
        """Return the number of bytes written since the last call."""
        written, self._written = self._written, 0
        return written

    def finish(self) -> CleanedGroup:
        """Make the segment complete and durable. It gets the modification time of the youngest
        segment it replaces."""
        self._write()
        segment = self._segment
        segment.seal(preallocated=False)
        segment.indexes_synced = False
        segment.sync(with_indexes=True)
        segment.files.release()
        self._disk.set_modified_ms(segment.files.path, self._group[-1].modified_ms)
        self._disk.sync_dir(self._job.directory)
        return CleanedGroup(
            segment.base_offset,
            tuple(source.base_offset for source in self._group),
            segment.size,
            segment.transaction_index.exists,
        )

    def discard(self) -> None:
        self._segment.files.release()
        remove_cleaned(self._disk, self._job.directory, self._segment.base_offset)


def remove_cleaned(disk: Disk, directory: str, base_offset: int) -> None:
    """Remove the files of an aborted attempt."""
    for suffix in SEGMENT_SUFFIXES:
        try:
            disk.remove(os.path.join(directory, offset_name(base_offset, suffix) + CLEANED_SUFFIX))
        except FileNotFoundError:
            pass
