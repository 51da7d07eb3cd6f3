"""Finding and giving out what is in a log."""

from __future__ import annotations

import logging

from ottla.records.header import (
    LEADER_EPOCH_POSITION,
    LOG_OVERHEAD,
)
from ottla.records.reader import read_records
from ottla.runtime.disk import FileSlice
from ottla.storage.errors import (
    LogFailed,
    OffsetOutOfRange,
)
from ottla.storage.log_state import LogState
from ottla.storage.segment import Segment
from ottla.storage.transaction_index import AbortedTransaction

logger = logging.getLogger("ottla.storage.log")

_AFTER_EPOCH = LEADER_EPOCH_POSITION + 4


class LogSlice(FileSlice):
    """Whole batches of a log, except perhaps the last one, which a size limit may have cut."""

    __slots__ = ("reaches_limit", "segment")

    def __init__(self, segment: Segment, position: int, count: int, reaches_limit: bool) -> None:
        super().__init__(segment.file, position, count)
        self.segment = segment
        self.reaches_limit = reaches_limit
        """Nothing more could be read now: the slice ends where the reader's limit is."""


class ReadableLog(LogState):
    __slots__ = ()

    def read(
        self, offset: int, max_bytes: int, limit_offset: int, *, min_one: bool = True
    ) -> LogSlice | None:
        """Batches from the one with `offset` on, below `limit_offset`, about `max_bytes` of them.

        `min_one`: the first batch comes whole even if it is larger. The slice lies in one segment,
        and its last batch may be cut: readers know. `None` where there is nothing to give.
        """
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.end_offset)
        limit_offset = min(limit_offset, self.end_offset)
        if offset >= limit_offset:
            return None
        try:
            segment = self._active
            if offset >= segment.base_offset:
                return self._read_active(segment, offset, max_bytes, limit_offset, min_one)
            return self._read_older(offset, max_bytes, limit_offset, min_one)
        except OSError as error:
            self._fail(error)

    def _read_active(
        self, segment: Segment, offset: int, max_bytes: int, limit_offset: int, min_one: bool
    ) -> LogSlice | None:
        recent = self._recent.get(offset)
        if recent is not None:
            start, first_size = recent
        else:
            found = segment.locate(offset)
            if found is None or found[1][0] >= limit_offset:
                return None
            start, first_size = found[0], LOG_OVERHEAD + found[1][1]
        end = segment.size
        if limit_offset != self.end_offset:
            end = self._limit_position(segment, limit_offset)
        return _slice(segment, start, end, first_size, max_bytes, min_one, reaches_end=True)

    def _read_older(
        self, offset: int, max_bytes: int, limit_offset: int, min_one: bool
    ) -> LogSlice | None:
        """From the segment of `offset`, or the next that has batches: compaction leaves gaps."""
        segments = self._segments
        for index in range(self._segment_index(offset), len(segments) - 1):
            segment, following = segments[index], segments[index + 1]
            found = segment.locate(offset)
            if found is None:
                continue
            if found[1][0] >= limit_offset:
                return None
            end, reaches_end = segment.size, limit_offset <= following.base_offset
            if limit_offset < following.base_offset:
                end = self._limit_position(segment, limit_offset)
            first_size = LOG_OVERHEAD + found[1][1]
            return _slice(segment, found[0], end, first_size, max_bytes, min_one, reaches_end)
        return self._read_active(segments[-1], offset, max_bytes, limit_offset, min_one)

    def _limit_position(self, segment: Segment, limit_offset: int) -> int:
        """Where the batch with `limit_offset` begins."""
        recent = self._recent.get(limit_offset) if segment is self._active else None
        if recent is not None:
            return recent[0]
        found = segment.locate(limit_offset)
        return segment.size if found is None else found[0]

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record that is not older."""
        try:
            for segment in self._segments:
                if segment.size and segment.max_timestamp >= timestamp:
                    found = segment.find_timestamp(timestamp, self.log_start_offset)
                    if found is not None:
                        return found
        except OSError as error:
            self._fail(error)
        return None

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the youngest record; of several, the first."""
        try:
            filled = [segment for segment in self._segments if segment.size]
            if not filled:
                return None
            segment = max(filled, key=_max_timestamp_of)
            found = segment.locate(segment.max_timestamp_offset)
            if found is None or segment.max_timestamp < 0:
                return None
            position, header = found
            for record in read_records(segment.read_batch(position, header)):
                if record.timestamp == header[8]:
                    return record.timestamp, record.offset, header[2]
            return None
        except OSError as error:
            self._fail(error)

    def aborted_transactions_in(self, offset: int, part: LogSlice) -> list[AbortedTransaction]:
        """Those that a reader who is at `offset` must skip in what `read` has just given."""
        segments = self._segments
        index = self._segment_index(offset)
        for segment in segments[index:]:
            if segment.transaction_index.exists:
                break
        else:
            return []
        try:
            upper_offset = part.segment.offset_beyond(part.offset + part.count)
            if upper_offset is None:
                index = segments.index(part.segment) + 1
                at_end = index == len(segments)
                upper_offset = self.end_offset if at_end else segments[index].base_offset
            return self.aborted_transactions(offset, upper_offset)
        except OSError as error:
            self._fail(error)

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Those that a reader of committed data must skip from `offset` to below `upper_offset`."""
        aborted: list[AbortedTransaction] = []
        for segment in self._segments[self._segment_index(offset) :]:
            if segment.transaction_index.exists:
                found, complete = segment.transaction_index.overlapping(offset, upper_offset)
                aborted += found
                if complete:
                    break
        return aborted

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """(greatest epoch not above `epoch`, offset after its last record); (-1, -1) if unknown."""
        return self.epochs.end_offset_for(epoch, self.end_offset)


def _slice(
    segment: Segment,
    start: int,
    end: int,
    first_size: int,
    max_bytes: int,
    min_one: bool,
    reaches_end: bool,
) -> LogSlice | None:
    """`reaches_end`: nothing below the limit lies beyond `end`."""
    if start >= end:
        return None
    count = end - start
    if count <= max_bytes:
        return LogSlice(segment, start, count, reaches_end)
    if first_size > max_bytes:
        return LogSlice(segment, start, first_size, False) if min_one else None
    return LogSlice(segment, start, max_bytes, False)


def _max_timestamp_of(segment: Segment) -> int:
    return segment.max_timestamp
