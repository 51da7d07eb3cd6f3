"""Reads the last batches of producers back from the end of a log.

A snapshot has only the last batch of each producer. A client that had more in flight when the
broker stopped sends all of them again, and those before the last must be recognized too, or the
first of them looks like a gap. So after a snapshot is loaded, the headers of the batches just
before it are read. (Kafka does not do this: such a client gets OUT_OF_ORDER_SEQUENCE_NUMBER.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.broker.storage.errors import CorruptFile
from ottla.broker.storage.producers.state import BATCHES_REMEMBERED, BatchMemory, ProducerState
from ottla.broker.storage.segments.batch_scan import LOOKUP_BLOCK_BYTES, BrokenBatch, scan
from ottla.broker.storage.segments.segment import Segment
from ottla.logs import get_logger
from ottla.records.header import CONTROL_BIT
from ottla.records.header_fields import ATTRIBUTES, BASE_OFFSET, PRODUCER_EPOCH, PRODUCER_ID

logger = get_logger("ottla.storage.recovery")

INDEX_ENTRIES_BACK: Final = 64
"""How many index entries to go back: at least as many batches, or this many times
`index.interval.bytes` if batches are smaller."""
IN_FLIGHT_MS_MAX: Final = 10 * 60 * 1000
"""No client retries for longer: delivery.timeout.ms is two minutes by default. Partitions that were
idle before the start cost nothing."""
SEGMENTS_BACK: Final = 2


def remember_tail(state: ProducerState, segments: Sequence[Segment], now_ms: int) -> None:
    """Add the producers' last batches to `state`, which was just loaded from a snapshot."""
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
            segment.files.release()
    except (BrokenBatch, CorruptFile, FileNotFoundError) as error:
        logger.warning("The last batches of producers cannot be read back: %s", error)
        return
    for producer_id, found in recent.items():
        entry = state.producers[producer_id]
        # Do not compare timestamps: in a snapshot the timestamp may be that of a marker.
        if found and found[-1].last_offset == entry.batches[-1].last_offset:
            entry.batches = found[-BATCHES_REMEMBERED:]


def _gather(state: ProducerState, segment: Segment, recent: dict[int, list[BatchMemory]]) -> None:
    slot = segment.offset_index.entries - INDEX_ENTRIES_BACK
    position = segment.offset_index.entry(slot)[1] if slot >= 0 else 0
    for _, header in scan(
        segment.files.file, position, segment.size, block_bytes=LOOKUP_BLOCK_BYTES
    ):
        if header[BASE_OFFSET] >= state.end_offset:
            return
        found = recent.get(header[PRODUCER_ID])
        if found is None or header[ATTRIBUTES] & CONTROL_BIT:
            continue
        if header[PRODUCER_EPOCH] == state.producers[header[PRODUCER_ID]].producer_epoch:
            found.append(BatchMemory.of(header))
