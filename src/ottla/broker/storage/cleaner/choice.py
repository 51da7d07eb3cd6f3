"""Chooses which log to compact next, and which part of it. Decisions only.

    | clean section | dirty: cleanable | dirty: not yet | active segment |
                    ^ first dirty      ^ uncleanable

The clean section was compacted before: each key is in it at most once. Compaction copies the clean
and the cleanable section, so it pays off when the cleanable one is a large share of both.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from ottla.broker.storage.log import Log
from ottla.broker.storage.segments.segment import Segment
from ottla.logs import get_logger

logger = get_logger("ottla.cleaner")


class CleanableLog(NamedTuple):
    log: Log
    first_dirty_offset: int
    uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """By how much the age of the oldest dirty record exceeds `max.compaction.lag.ms`."""

    @property
    def dirty_ratio(self) -> float:
        return self.cleanable_bytes / (self.clean_bytes + self.cleanable_bytes)

    @property
    def is_due(self) -> bool:
        if self.delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def assess(
    log: Log, checkpoint: int | None, high_watermark: int, now_ms: int
) -> CleanableLog | None:
    """Return what can be compacted in the log; None if nothing can. `checkpoint`: the offset up to
    which it was cleaned last time."""
    first_dirty = first_dirty_offset(log, checkpoint)
    segments = list(log.segments)
    dirty = [
        segment for segment, following in pairwise(segments) if following.base_offset > first_dirty
    ]
    limit = max(first_dirty, _uncleanable_offset(log, dirty, high_watermark, now_ms))
    # Only whole segments: the one that contains the limit stays as it is.
    uncleanable = max(segment.base_offset for segment in segments if segment.base_offset <= limit)
    cleanable_bytes = sum(segment.size for segment in dirty if segment.base_offset < uncleanable)
    if not cleanable_bytes:
        return None
    clean_bytes = sum(segment.size for segment in segments[: -len(dirty) - 1])
    delay_ms = _delay_ms(log, dirty, now_ms)
    return CleanableLog(log, first_dirty, uncleanable, clean_bytes, cleanable_bytes, delay_ms)


def first_dirty_offset(log: Log, checkpoint: int | None) -> int:
    """Return the first dirty offset. If the checkpoint does not fit the log, nothing counts as
    clean."""
    if checkpoint is None or checkpoint < log.log_start_offset:
        return log.log_start_offset
    if checkpoint > log.end_offset:
        logger.warning(
            "%s was compacted up to offset %d and ends at %d: compacting all of it again",
            log.directory,
            checkpoint,
            log.end_offset,
        )
        return log.log_start_offset
    return checkpoint


def _uncleanable_offset(log: Log, dirty: list[Segment], high_watermark: int, now_ms: int) -> int:
    """Return the offset up to which segments may be compacted: nothing that may still be truncated,
    is undecided or is too young."""
    limit = min(high_watermark, log.segments.active.base_offset)
    unstable = log.producers.first_unstable_offset(high_watermark)
    if unstable is not None:
        limit = min(limit, unstable)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in dirty:
            if segment.largest_timestamp() > now_ms - lag_ms:
                return min(limit, segment.base_offset)
    return limit


def _delay_ms(log: Log, dirty: list[Segment], now_ms: int) -> int:
    due_ms = now_ms - log.config.max_compaction_lag_ms
    if due_ms <= 0:
        return 0  # A lag this large means never, as in Kafka.
    stamps = [segment.first_timestamp for segment in dirty if segment.size]
    return max(0, due_ms - min((stamp for stamp in stamps if stamp > 0), default=due_ms))
