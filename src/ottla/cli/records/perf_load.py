"""Produces at full speed or at a fixed rate, from batches that are built once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.cli.progress import progress
from ottla.client.admin.admin import Admin
from ottla.client.network.cluster import Cluster
from ottla.client.producer.batching.batch import Observer, ProducerBatch
from ottla.client.producer.producer import Producer, engine_of
from ottla.client.settings.producer import ProducerOptions
from ottla.client.values import RecordMetadata, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.builder import build_batch, seal
from ottla.records.codec import Codec
from ottla.records.header import HEADER_SIZE, read_header
from ottla.records.record import Record
from ottla.runtime.clock import Clock

RECORD_OVERHEAD_BYTES = 8
BUFFER_BYTES = 64 << 20
PERCENTILES = (50.0, 95.0, 99.0, 99.9)


@dataclass(frozen=True, slots=True)
class Load:
    topic: str
    records: int
    size: int
    throughput: int | None
    partitions: int | None
    batch_bytes: int
    in_flight: int
    codec: str

    @property
    def per_batch(self) -> int:
        count = max(1, self.batch_bytes // (self.size + RECORD_OVERHEAD_BYTES))
        if self.throughput is not None:
            count = min(count, max(1, self.throughput // 100))
        return count


class Template:
    """A batch with the same records each time; header, times and sequence are new."""

    def __init__(self, count: int, load: Load, clock: Clock) -> None:
        value = payload(load.size)
        records = [Record(index, 0, None, value) for index in range(count)]
        batch = build_batch(records, codec=Codec[load.codec.upper()])
        self.count = count
        self.size = len(batch)
        self._header = read_header(batch)
        self._payload = batch[HEADER_SIZE:]
        self._clock = clock

    def build(self, producer_id: int, producer_epoch: int, sequence: int) -> bytearray:
        now_ms = self._clock.wall_ms()
        header = self._header._replace(
            base_timestamp=now_ms,
            max_timestamp=now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
        return bytearray(seal(header, self._payload))


class TemplateBatch(ProducerBatch):
    """A batch with the prepared bytes of a template."""

    __slots__ = ("_template",)

    def __init__(self, partition: TopicPartition, template: Template, now: float) -> None:
        super().__init__(partition, (), now, now)
        self._template = template
        self.writer = None
        self.count = template.count
        self.memory = template.size

    def sealed(self, codec: Codec, level: int | None, *, transactional: bool) -> bytearray:
        if self.data is None:
            identity = self.identity
            self.data = self._template.build(identity.producer_id, identity.epoch, self.sequence)
        return self.data


def payload(size: int) -> bytes:
    """Return text-like bytes that compress about as well as log lines."""
    words = b"the quick brown fox jumps over the lazy dog 0123456789 "
    return (words * (size // len(words) + 1))[:size]


async def run_load(cluster: Cluster, load: Load, options: ProducerOptions) -> dict[str, Any]:
    if load.partitions is not None:
        await _ensure_topic(Admin.over(cluster), load.topic, load.partitions)
    topic = await cluster.topic(load.topic, create_missing=True)
    partitions = len(topic.partitions)
    for leader in {partition.leader for partition in topic.partitions}:
        await cluster.broker(leader)  # connecting is not measured
    clock = cluster.runtime.clock
    template = Template(load.per_batch, load, clock)
    options["max_in_flight_requests_per_connection"] = load.in_flight
    options["buffer_memory"] = _buffer_bytes(load, template, partitions)
    latencies: list[tuple[float, int]] = []
    with progress(f"producing to {load.topic}", load.records) as advance:

        def delivered(waited_s: float, count: int) -> None:
            latencies.append((waited_s, count))
            advance(count)

        async with Producer.over(cluster, **options) as producer:
            began = clock.now()
            await _send_all(producer, load, template, partitions, clock, delivered)
            await producer.flush()
            taken_s = clock.now() - began
    return _result(load, taken_s, latencies)


def _buffer_bytes(load: Load, template: Template, partitions: int) -> int:
    """Return the size of the producer's buffer. At full speed it is twice what may be in flight:
    enough to keep the broker busy without a queue here that would count as its latency. At a fixed
    rate the queue is part of the latency."""
    if load.throughput is not None:
        return BUFFER_BYTES
    return 2 * load.in_flight * partitions * template.size


async def _ensure_topic(admin: Admin, topic: str, partitions: int) -> None:
    try:
        await admin.create_topic(topic, partitions=partitions)
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def _send_all(
    producer: Producer,
    load: Load,
    template: Template,
    partitions: int,
    clock: Clock,
    delivered: Callable[[float, int], None],
) -> None:
    """Send batches to the partitions in turn; at a fixed rate each batch has a due time."""
    left, partition, began = load.records, 0, clock.now()
    engine = engine_of(producer)
    while left > 0:
        if left < template.count:
            template = Template(left, load, clock)
        due = clock.now()
        if load.throughput is not None:
            due = began + (load.records - left) / load.throughput
            await asyncio.sleep(max(0.0, due - clock.now()))
        batch = TemplateBatch(TopicPartition(load.topic, partition), template, clock.now())
        batch.observe(Observer(0, 0, _latency(due, template.count, clock, delivered)))
        await engine.send_batch(batch)
        left -= template.count
        partition = (partition + 1) % partitions


def _latency(
    due: float, count: int, clock: Clock, delivered: Callable[[float, int], None]
) -> Callable[[RecordMetadata | None, Exception | None], None]:
    def done(_metadata: RecordMetadata | None, error: Exception | None) -> None:
        if error is None:
            delivered(clock.now() - due, count)

    return done


def _result(load: Load, taken_s: float, latencies: list[tuple[float, int]]) -> dict[str, Any]:
    total_bytes = load.records * load.size
    result: dict[str, Any] = {
        "topic": load.topic,
        "records": load.records,
        "record_bytes": load.size,
        "records_per_batch": load.per_batch,
        "seconds": round(taken_s, 3),
        "records_per_s": round(load.records / taken_s, 1),
        "mb_per_s": round(total_bytes / taken_s / 1e6, 3),
    }
    for percentile, value_s in zip(PERCENTILES, percentiles(latencies, PERCENTILES), strict=True):
        result[f"latency_p{percentile:g}_ms"] = round(value_s * 1000, 3)
    result["latency_max_ms"] = round(max((each[0] for each in latencies), default=0) * 1000, 3)
    return result


def percentiles(weighted: Sequence[tuple[float, int]], wanted: Sequence[float]) -> list[float]:
    """Return percentiles of values that each count for several records; `wanted` must be in
    ascending order."""
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
