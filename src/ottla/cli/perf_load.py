"""Producing at full speed or at a fixed rate, from batches that are built once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ottla.buffers import Buffer
from ottla.cli.progress import progress
from ottla.client.admin.admin import Admin
from ottla.client.network.cluster import Cluster
from ottla.client.outbox import Batch, Identity
from ottla.client.produce import Delivered, Producer, ProducerSettings
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.builder import build_batch, seal
from ottla.records.codec import Codec
from ottla.records.header import HEADER_SIZE, read_header
from ottla.records.record import Record
from ottla.runtime.clock import Clock

RECORD_OVERHEAD_BYTES = 8
PERCENTILES = (50.0, 95.0, 99.0, 99.9)


@dataclass(frozen=True, slots=True)
class Load:
    topic: str
    records: int
    size: int
    throughput: int | None
    partitions: int | None


class Template:
    """A batch whose records stay the same; header, times and sequence are new for each sending."""

    def __init__(self, count: int, size: int, codec: Codec, clock: Clock) -> None:
        value = payload(size)
        records = [Record(index, 0, None, value) for index in range(count)]
        batch = build_batch(records, codec=codec)
        self.count = count
        self._header = read_header(batch)
        self._payload = batch[HEADER_SIZE:]
        self._clock = clock

    def build(self, identity: Identity, sequence: int) -> Buffer:
        now_ms = self._clock.wall_ms()
        header = self._header._replace(
            base_timestamp=now_ms,
            max_timestamp=now_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
        )
        return seal(header, self._payload)


def payload(size: int) -> bytes:
    """Text-like bytes that compress about as well as log lines do."""
    words = b"the quick brown fox jumps over the lazy dog 0123456789 "
    return (words * (size // len(words) + 1))[:size]


async def run_load(cluster: Cluster, load: Load, settings: ProducerSettings) -> dict[str, Any]:
    if load.partitions is not None:
        await _ensure_topic(Admin.over(cluster), load.topic, load.partitions)
    clock = cluster.runtime.clock
    per_batch = max(1, settings.batch_bytes // (load.size + RECORD_OVERHEAD_BYTES))
    if load.throughput is not None:
        per_batch = min(per_batch, max(1, load.throughput // 100))
    settings = replace(settings, buffer_bytes_max=await _buffer_bytes(cluster, load, settings))
    latencies: list[tuple[float, int]] = []
    with progress(f"producing to {load.topic}", load.records) as advance:

        def delivered(arrived: Delivered) -> None:
            latencies.append((arrived.waited_s, arrived.count))
            advance(arrived.count)

        async with Producer(cluster, load.topic, settings, on_delivered=delivered) as producer:
            began = clock.now()
            await _send_all(producer, load, per_batch, settings.codec, clock)
            await producer.flush()
            taken_s = clock.now() - began
    return _result(load, per_batch, taken_s, latencies)


async def _buffer_bytes(cluster: Cluster, load: Load, settings: ProducerSettings) -> int:
    """All out, twice what may be under way: enough to keep the broker busy, and no queue here that
    would be measured as its latency. At a fixed rate the queue is part of the answer."""
    if load.throughput is not None:
        return settings.buffer_bytes_max
    topic = await cluster.topic(load.topic, create_missing=True)
    return 2 * settings.in_flight_max * len(topic.partitions) * settings.batch_bytes


async def _ensure_topic(admin: Admin, topic: str, partitions: int) -> None:
    try:
        await admin.create_topic(topic, partitions=partitions)
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def _send_all(
    producer: Producer, load: Load, per_batch: int, codec: Codec, clock: Clock
) -> None:
    """Batches go round the partitions; at a fixed rate each has a time when it is due."""
    template = Template(per_batch, load.size, codec, clock)
    left, partition, began = load.records, 0, clock.now()
    while left > 0:
        if left < per_batch:
            template = Template(left, load.size, codec, clock)
        due = clock.now()
        if load.throughput is not None:
            due = began + (load.records - left) / load.throughput
            await asyncio.sleep(max(0.0, due - clock.now()))
        batch = Batch(partition, template.count, producer.settings.batch_bytes, template.build, due)
        await producer.send_batch(batch)
        left -= template.count
        partition = (partition + 1) % producer.partition_count


def _result(
    load: Load, per_batch: int, taken_s: float, latencies: list[tuple[float, int]]
) -> dict[str, Any]:
    total_bytes = load.records * load.size
    result: dict[str, Any] = {
        "topic": load.topic,
        "records": load.records,
        "record_bytes": load.size,
        "records_per_batch": per_batch,
        "seconds": round(taken_s, 3),
        "records_per_s": round(load.records / taken_s, 1),
        "mb_per_s": round(total_bytes / taken_s / 1e6, 3),
    }
    for percentile, value_s in zip(PERCENTILES, percentiles(latencies, PERCENTILES), strict=True):
        result[f"latency_p{percentile:g}_ms"] = round(value_s * 1000, 3)
    result["latency_max_ms"] = round(max((each[0] for each in latencies), default=0) * 1000, 3)
    return result


def percentiles(weighted: Sequence[tuple[float, int]], wanted: Sequence[float]) -> list[float]:
    """Of values that each count for several records; `wanted` must rise."""
    ordered = sorted(weighted)
    total = sum(weight for _, weight in ordered)
    found: list[float] = []
    seen, position = 0, 0
    for percentile in wanted:
        while (
            position < len(ordered) - 1 and seen + ordered[position][1] < total * percentile / 100
        ):
            seen += ordered[position][1]
            position += 1
        found.append(ordered[position][0] if ordered else 0.0)
    return found
