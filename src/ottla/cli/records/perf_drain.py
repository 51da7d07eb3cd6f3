"""Consumes at full speed: by batch headers alone, or record by record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.cli.moments import Moment, existing, resolve
from ottla.cli.progress import progress
from ottla.cli.topics.reading import read_topic
from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.client.network.cluster import Cluster

RECORDS_A_POLL_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Drain:
    topic: str
    records: int | None
    begin: Moment
    partitions: list[int] | None
    fetch_bytes: int
    decode: bool


async def run_drain(cluster: Cluster, drain: Drain) -> dict[str, Any]:
    clock, metrics = cluster.runtime.clock, cluster.metrics
    starts, ends = await _range(cluster, drain)
    available = sum(max(0, ends[index] - starts[index]) for index in starts)
    total = available if drain.records is None else min(available, drain.records)
    count = 0
    began = clock.now()
    with progress(f"consuming {drain.topic}", total) as advance:
        counts = read_topic(
            cluster,
            drain.topic,
            starts,
            ends,
            _count_records if drain.decode else _count_in_headers,
            max_partition_fetch_bytes=drain.fetch_bytes,
            check_crcs=drain.decode,
        )
        try:
            async for seen in counts:
                count += seen
                advance(seen)
                if drain.records is not None and count >= drain.records:
                    break
        finally:
            await counts.aclose()
    taken_s = max(clock.now() - began, 1e-9)
    size = metrics.counter("bytes-consumed-total").value
    return {
        "topic": drain.topic,
        "records": count,
        "bytes": size,
        "fetches": metrics.counter("fetch-total").value,
        "seconds": round(taken_s, 3),
        "records_per_s": round(count / taken_s, 1),
        "mb_per_s": round(size / taken_s / 1e6, 3),
    }


async def _range(cluster: Cluster, drain: Drain) -> tuple[dict[int, int], dict[int, int]]:
    """Return where to begin and to end in each partition."""
    admin = Admin.over(cluster)
    indexes = existing(await cluster.topic(drain.topic), drain.partitions)
    ends = await resolve(admin, drain.topic, indexes, Moment("latest"))
    return await resolve(admin, drain.topic, indexes, drain.begin), ends


async def _count_records(consumer: Consumer, wait_ms: int) -> int:
    found = await consumer.poll(wait_ms, RECORDS_A_POLL_MAX)
    return sum(map(len, found.values()))


async def _count_in_headers(consumer: Consumer, wait_ms: int) -> int:
    return sum(batch.header.record_count for batch in await consumer.fetch_batches(wait_ms))
