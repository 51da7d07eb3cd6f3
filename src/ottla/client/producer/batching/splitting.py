"""Splits a batch that the broker found too large into smaller ones."""

from __future__ import annotations

from ottla.client.producer.batching.accumulator import AT_ONCE
from ottla.client.producer.batching.batch import ProducerBatch
from ottla.records.engine import record_size_max
from ottla.records.header import HEADER_SIZE
from ottla.records.reader import read_records


def split(batch: ProducerBatch, batch_size: int) -> tuple[list[ProducerBatch], float]:
    """Return batches of at most half the size each, and the compression ratio of the large one.

    A record that is larger than that gets its own batch, so that splitting ends.
    """
    assert batch.data is not None
    records = read_records(bytes(batch.data))
    sizes = [record_size_max(record.key, record.value, record.headers) for record in records]
    limit = max(1, min(batch_size - HEADER_SIZE, sum(sizes) // 2))
    parts: list[ProducerBatch] = []
    room = 0
    for record, size in zip(records, sizes, strict=True):
        if not parts or size > room:
            parts.append(ProducerBatch(batch.partition, batch.order, batch.created_at, AT_ONCE))
            room = limit
        writer = parts[-1].writer
        assert writer is not None
        writer.append(record.timestamp, record.key, record.value, record.headers)
        room -= size
    payload_size = 0
    for part in parts:
        part.close()
        assert part.writer is not None
        payload_size += part.writer.size
        part.memory = part.writer.size + HEADER_SIZE
    return parts, (len(batch.data) - HEADER_SIZE) / payload_size
