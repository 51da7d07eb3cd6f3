"""Restores the producers of a log after its end was truncated."""

from __future__ import annotations

from ottla.broker.storage.errors import CorruptFile
from ottla.broker.storage.producers.state import ProducerState
from ottla.broker.storage.segments.batch_scan import scan
from ottla.broker.storage.segments.segments import Segments
from ottla.records.header_fields import BASE_OFFSET, PRODUCER_ID


def rebuild_producers(
    state: ProducerState, segments: Segments, log_start_offset: int, end_offset: int
) -> None:
    """Restore the state at the new end: the last remaining snapshot, and the batches after it."""
    disk, directory = segments.disk, segments.directory
    for offset in [kept for kept in state.snapshots if kept > end_offset]:
        state.remove_snapshot(disk, directory, offset)
    if not state.producers:
        state.clear(end_offset)
        return
    for offset in reversed(state.snapshots):
        try:
            state.load_snapshot(disk, directory, offset)
            break
        except (CorruptFile, FileNotFoundError):
            state.remove_snapshot(disk, directory, offset)
    else:
        state.clear(log_start_offset)
    from_offset = state.end_offset
    for segment in segments.since(from_offset):
        for position, header in scan(segment.files.file, 0, segment.size):
            if header[PRODUCER_ID] >= 0 and header[BASE_OFFSET] >= from_offset:
                state.apply(header, segment.read_batch(position, header))
    state.end_offset = end_offset
