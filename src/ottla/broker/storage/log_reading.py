"""Lookups and reads in the segments of a log."""

from __future__ import annotations

from itertools import pairwise

from ottla.broker.storage.segments.batch_scan import HeaderFields
from ottla.broker.storage.segments.segment import Segment
from ottla.broker.storage.segments.segments import Segments
from ottla.broker.storage.segments.timed_batch import TimedBatch
from ottla.broker.storage.segments.transaction_index import AbortedTransaction
from ottla.records.header import LOG_OVERHEAD, BatchHeader
from ottla.records.header_fields import BASE_OFFSET, BATCH_LENGTH
from ottla.runtime.disk import FileSlice


class LogSlice(FileSlice):
    """Whole batches of a log, except perhaps the last one, which a size limit may have cut."""

    __slots__ = ("reaches_limit", "segment")

    def __init__(self, segment: Segment, position: int, count: int, reaches_limit: bool) -> None:
        super().__init__(segment.files.file, position, count)
        self.segment = segment
        self.reaches_limit = reaches_limit
        """True if nothing more can be read now: the slice ends at the reader's limit."""


def read_active(
    segments: Segments,
    offset: int,
    max_bytes: int,
    limit_offset: int,
    end_offset: int,
    min_one: bool,
) -> LogSlice | None:
    """Read from the active segment; `end_offset` is that of the log. For the rest see
    `Log.read`."""
    segment = segments.active
    recent = segments.recent.get(offset)
    if recent is not None:
        start, first_size = recent
    else:
        found = segment.locate(offset)
        if found is None:
            return None
        start, header = found
        if header[BASE_OFFSET] >= limit_offset:
            return None
        first_size = LOG_OVERHEAD + header[BATCH_LENGTH]
    end = segment.size
    if limit_offset != end_offset:
        recent = segments.recent.get(limit_offset)
        end = recent[0] if recent is not None else _limit_position(segment, limit_offset)
    return _slice(segment, start, end, first_size, max_bytes, min_one, True)


def read_older(
    segments: Segments,
    offset: int,
    max_bytes: int,
    limit_offset: int,
    end_offset: int,
    min_one: bool,
) -> LogSlice | None:
    """Read from the segment of `offset`, or the next one that has batches: compaction leaves
    gaps."""
    candidates = segments.since(offset)
    for segment, following in pairwise(candidates):
        found = segment.locate(offset)
        if found is None:
            continue
        start, header = found
        if header[BASE_OFFSET] >= limit_offset:
            return None
        end, reaches_end = segment.size, limit_offset <= following.base_offset
        if limit_offset < following.base_offset:
            end = _limit_position(segment, limit_offset)
        first_size = LOG_OVERHEAD + header[BATCH_LENGTH]
        return _slice(segment, start, end, first_size, max_bytes, min_one, reaches_end)
    return read_active(segments, offset, max_bytes, limit_offset, end_offset, min_one)


def _limit_position(segment: Segment, limit_offset: int) -> int:
    """Return the position of the batch that contains `limit_offset`."""
    found = segment.locate(limit_offset)
    return segment.size if found is None else found[0]


def batch_for_timestamp(
    segments: Segments, timestamp: int, first_offset: int
) -> TimedBatch | int | None:
    """See `Log.batch_for_timestamp`."""
    for segment in segments.since(first_offset):
        if segment.size and segment.max_timestamp >= timestamp:
            found = segment.find_timed_batch(timestamp, first_offset)
            if isinstance(found, int):
                return found
            if found is not None:
                return _timed(segment, *found)
    return None


def batch_of_max_timestamp(segments: Segments) -> TimedBatch | None:
    """See `Log.batch_of_max_timestamp`."""
    filled = [segment for segment in segments if segment.size]
    if not filled:
        return None
    segment = max(filled, key=_max_timestamp_of)
    found = segment.locate(segment.max_timestamp_offset)
    if found is None or segment.max_timestamp < 0:
        return None
    return _timed(segment, *found)


def aborted_in_slice(
    segments: Segments, offset: int, part: LogSlice, end_offset: int
) -> list[AbortedTransaction]:
    """Return the transactions that a reader at `offset` must skip in `part`; `end_offset` is that
    of the log."""
    for segment in segments.since(offset):
        if segment.transaction_index.exists:
            break
    else:
        return []
    upper_offset = part.segment.offset_beyond(part.offset + part.count)
    if upper_offset is None:
        index = segments.index(part.segment) + 1
        upper_offset = end_offset if index == len(segments) else segments[index].base_offset
    return aborted_transactions(segments, offset, upper_offset)


def aborted_transactions(
    segments: Segments, offset: int, upper_offset: int
) -> list[AbortedTransaction]:
    """Return the transactions that a reader of committed data must skip from `offset` to below
    `upper_offset`."""
    aborted: list[AbortedTransaction] = []
    for segment in segments.since(offset):
        if segment.transaction_index.exists:
            found, complete = segment.transaction_index.overlapping(offset, upper_offset)
            aborted += found
            if complete:
                break
    return aborted


def _slice(
    segment: Segment,
    start: int,
    end: int,
    first_size: int,
    max_bytes: int,
    min_one: bool,
    reaches_end: bool,
) -> LogSlice | None:
    """`reaches_end`: there is nothing below the reader's limit after `end`."""
    if start >= end:
        return None
    count = end - start
    if count <= max_bytes:
        return LogSlice(segment, start, count, reaches_end)
    if first_size > max_bytes:
        return LogSlice(segment, start, first_size, False) if min_one else None
    return LogSlice(segment, start, max_bytes, False)


def _timed(segment: Segment, position: int, header: HeaderFields) -> TimedBatch:
    return TimedBatch(BatchHeader._make(header), segment.read_batch(position, header))


def _max_timestamp_of(segment: Segment) -> int:
    return segment.max_timestamp
