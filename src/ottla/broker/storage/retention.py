"""Decides which segments at the front of a log have expired. Decisions only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.broker.storage.segments.segment import Segment


def count_deletable(
    segments: Sequence[Segment],
    end_offset: int,
    high_watermark: int,
    is_expired: Callable[[Segment, Segment | None], bool],
) -> int:
    """Return how many segments, from the oldest on, may be deleted.

    Never a segment that reaches above the high watermark, or the log would begin after committed
    records; never an empty last one, which would only be created again.
    """
    count = 0
    for index, segment in enumerate(segments):
        following = segments[index + 1] if index + 1 < len(segments) else None
        upper_offset = following.base_offset if following else end_offset
        if following is None and segment.size == 0:
            break
        if high_watermark < upper_offset or not is_expired(segment, following):
            break
        count += 1
    return count


def before_offset(log_start_offset: int) -> Callable[[Segment, Segment | None], bool]:
    """Expired: all records of the segment were deleted on request."""

    def is_expired(_: Segment, following: Segment | None) -> bool:
        return following is not None and following.base_offset <= log_start_offset

    return is_expired


def beyond_size(
    segments: Sequence[Segment], retention_bytes: int
) -> Callable[[Segment, Segment | None], bool]:
    """Expired: without the segment the log would still have the size that retention allows."""
    excess = sum(segment.size for segment in segments) - retention_bytes

    def is_expired(segment: Segment, _: Segment | None) -> bool:
        nonlocal excess
        if retention_bytes < 0 or excess < segment.size:
            return False
        excess -= segment.size
        return True

    return is_expired


def beyond_age(now_ms: int, retention_ms: int) -> Callable[[Segment, Segment | None], bool]:
    """Expired: even the youngest record of the segment is too old."""

    def is_expired(segment: Segment, _: Segment | None) -> bool:
        return retention_ms >= 0 and now_ms - segment.largest_timestamp() > retention_ms

    return is_expired
