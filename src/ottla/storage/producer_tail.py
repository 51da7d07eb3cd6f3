"""The last batches of producers, read back from the end of a log.

A snapshot holds only the last batch of each producer. A client that had more in flight when the
broker stopped sends all of them again, and those before the last must be recognised too, or the
first of them looks like a gap. So after a snapshot is loaded, the headers of the batches just
before it are read. (Kafka does without: such a client is told OUT_OF_ORDER_SEQUENCE_NUMBER.)
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ottla.records.header import CONTROL_BIT
from ottla.storage.batch_scan import LOOKUP_BLOCK_BYTES, BrokenBatch, scan
from ottla.storage.errors import CorruptFile
from ottla.storage.producer_state import BATCHES_REMEMBERED, BatchMemory, ProducerState
from ottla.storage.segment import Segment

logger = logging.getLogger("ottla.storage.recovery")

INDEX_ENTRIES_BACK: Final = 64
"""So many batches at least, or as many times `index.interval.bytes` where batches are smaller."""
IN_FLIGHT_MS_MAX: Final = 10 * 60 * 1000
"""Nobody tries for longer: delivery.timeout.ms is two minutes unless told otherwise. Partitions
that were idle before the start cost nothing."""
SEGMENTS_BACK: Final = 2


def remember_tail(state: ProducerState, segments: Sequence[Segment], now_ms: int) -> None:
    """Complete what `state`, just loaded from a snapshot, knows of the producers' last batches."""
    recent = {
        producer_id: list[BatchMemory]()
        for producer_id, entry in state.producers.items()
        if entry.batches and now_ms - entry.last_timestamp < IN_FLIGHT_MS_MAX
    }
    if not recent:
        return
    below = [segment for segment in segments if segment.base_offset < state.end_offset]
    try:
        for segment in below[-SEGMENTS_BACK:]:
            _gather(state, segment, recent)
            segment.release()
    except (BrokenBatch, CorruptFile, FileNotFoundError) as error:
        logger.warning("The last batches of producers cannot be read back: %s", error)
        return
    for producer_id, found in recent.items():
        entry = state.producers[producer_id]
        # Not by timestamp: in a snapshot that of a marker stands in for the batch's own.
        if found and found[-1].last_offset == entry.batches[-1].last_offset:
            entry.batches = found[-BATCHES_REMEMBERED:]


def _gather(state: ProducerState, segment: Segment, recent: dict[int, list[BatchMemory]]) -> None:
    slot = segment.offset_index.entries - INDEX_ENTRIES_BACK
    position = segment.offset_index.entry(slot)[1] if slot >= 0 else 0
    for _, header in scan(segment.file, position, segment.size, block_bytes=LOOKUP_BLOCK_BYTES):
        if header[0] >= state.end_offset:
            return
        found = recent.get(header[9])
        if found is None or header[5] & CONTROL_BIT:
            continue
        if header[10] == state.producers[header[9]].producer_epoch:
            found.append(BatchMemory.of(header))
