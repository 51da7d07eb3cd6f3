"""Makes a job from a log, and a segment from its result."""

from __future__ import annotations

from ottla.broker.storage.cleaner.choice import CleanableLog
from ottla.broker.storage.cleaner.job import (
    NO_DATA,
    CleanedGroup,
    CleaningJob,
    JobSegment,
    LastRecord,
    Memory,
)
from ottla.broker.storage.log import Log
from ottla.broker.storage.names import CLEANED_SUFFIX
from ottla.broker.storage.segments.segment import Segment
from ottla.runtime.disk import Disk


def plan_job(chosen: CleanableLog, memory: Memory, now_ms: int) -> CleaningJob:
    log = chosen.log
    segments = list(log.segments)
    cleaned = [s for s in segments if s.base_offset < chosen.uncleanable_offset]
    later = segments[len(cleaned) :]
    return CleaningJob(
        directory=log.directory,
        config=log.config,
        segments=tuple(
            JobSegment(s.base_offset, s.size, s.transaction_index.exists) for s in cleaned
        ),
        later_segments=tuple(s.base_offset for s in later if s.transaction_index.exists),
        first_dirty_offset=chosen.first_dirty_offset,
        uncleanable_offset=chosen.uncleanable_offset,
        now_ms=now_ms,
        producers=_last_records(log),
        memory=memory,
    )


def _last_records(log: Log) -> dict[int, LastRecord]:
    return {
        producer_id: LastRecord(
            entry.batches[-1].last_offset if entry.batches else NO_DATA, entry.producer_epoch
        )
        for producer_id, entry in log.producers.producers.items()
    }


def cleaned_segment(disk: Disk, log: Log, group: CleanedGroup, now_ms: int) -> Segment:
    """Return the segment that the work has left in the folder, ready for `Log.replace_segments`."""
    return Segment(
        disk,
        log.directory,
        group.base_offset,
        log.config,
        size=group.size,
        created_ms=now_ms,
        has_transaction_index=group.has_transaction_index,
        ending=CLEANED_SUFFIX,
    )
