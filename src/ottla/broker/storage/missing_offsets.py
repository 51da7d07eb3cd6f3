"""Logs segments that were emptied, truncated or removed by accident. Readers skip whole missing
batches, as in Kafka, so nobody would notice otherwise. Readers do get an error for a partial
batch."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import pairwise

from ottla.broker.storage.segments.batch_scan import BrokenBatch, scan
from ottla.broker.storage.segments.segment import Segment
from ottla.logs import get_logger
from ottla.records.header_fields import BASE_OFFSET, LAST_OFFSET_DELTA

logger = get_logger("ottla.storage.recovery")


def tell_missing(segments: Sequence[Segment], cut: Container[int], *, is_compacted: bool) -> None:
    """Compare the end of each segment with the beginning of the next; the last segment is not
    checked.

    `cut` has the base offsets of segments whose index knew of more bytes. For other segments, whole
    batches and a gap after them may be the result of compaction, now or under an earlier
    `cleanup.policy`.
    """
    for segment, following in pairwise(segments):
        end_offset, damage = _end_of(segment)
        segment.files.release()
        if end_offset >= following.base_offset and not damage:
            continue
        if damage or segment.base_offset in cut:
            reason = damage or f"it was cut to {segment.size} bytes"
        elif not segment.size and not is_compacted:
            reason = "it is empty"
        else:
            continue
        logger.error(
            "%s lacks offsets %d to %d: %s. Readers %s %d. Restore the file from a copy; where "
            "other replicas have it, move the partition's folder away and it is copied from them",
            segment.files.path,
            end_offset,
            following.base_offset - 1,
            reason,
            "get CORRUPT_MESSAGE there, and have to seek to" if damage else "go on at",
            following.base_offset,
        )


def tell_missing_end(directory: str, end_offset: int, stored_to: int) -> None:
    """Log an error if a log that was closed cleanly is shorter than it was then."""
    if end_offset < stored_to:
        logger.error(
            "%s lacks offsets %d to %d, which it had when the broker was stopped. Restore its "
            "files from a copy before something is written; where other replicas have them, move "
            "the folder away and it is copied from them",
            directory,
            end_offset,
            stored_to - 1,
        )


def _end_of(segment: Segment) -> tuple[int, str]:
    """Return (the offset after the last whole batch, what is wrong with the rest). The index is
    valid."""
    last = segment.offset_index.read_last()
    end_offset = segment.base_offset
    try:
        for _, header in scan(segment.files.file, last[1] if last else 0, segment.size):
            end_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
    except BrokenBatch as broken:
        return end_offset, str(broken)
    return end_offset, ""
