"""From a log to a job, and from its outcome to a segment."""

from __future__ import annotations

from ottla.runtime.disk import Disk
from ottla.storage.cleaner.choice import CleanableLog
from ottla.storage.cleaner.job import (
    NO_DATA,
    CleanedGroup,
    CleaningJob,
    LastRecord,
    Memory,
    SegmentFiles,
)
from ottla.storage.log import Log
from ottla.storage.names import CLEANED_SUFFIX
from ottla.storage.segment import Segment


def plan_job(chosen: CleanableLog, memory: Memory, now_ms: int) -> CleaningJob:
    log = chosen.log
    segments = log.segments
    cleaned = [s for s in segments if s.base_offset < chosen.uncleanable_offset]
    later = segments[len(cleaned) :]
    return CleaningJob(
        directory=log.directory,
        config=log.config,
        segments=tuple(
            SegmentFiles(s.base_offset, s.size, s.transaction_index.exists) for s in cleaned
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
    """What the work has left in the folder, ready for `Log.replace_segments`."""
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
