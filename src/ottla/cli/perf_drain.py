"""Consuming at full speed: by batch headers alone, or record by record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.cli.moments import Moment, resolve
from ottla.cli.progress import progress
from ottla.client.admin.admin import Admin
from ottla.client.consume import ReaderSettings, TopicReader
from ottla.client.fetched import Fetched
from ottla.client.network.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Drain:
    topic: str
    records: int | None
    begin: Moment
    partitions: list[int] | None
    fetch_bytes: int
    decode: bool


async def run_drain(cluster: Cluster, drain: Drain) -> dict[str, Any]:
    clock = cluster.runtime.clock
    reader, available = await _reader(cluster, drain)
    total = available if drain.records is None else min(available, drain.records)
    count = size = fetches = 0
    began = clock.now()
    with progress(f"consuming {drain.topic}", total) as advance:
        stream = reader.fetches()
        try:
            async for fetched in stream:
                seen, length = _count(fetched, drain.decode)
                count += seen
                size += length
                fetches += 1
                advance(seen)
                if drain.records is not None and count >= drain.records:
                    break
        finally:
            await stream.aclose()
    taken_s = max(clock.now() - began, 1e-9)
    return {
        "topic": drain.topic,
        "records": count,
        "bytes": size,
        "fetched_parts": fetches,
        "seconds": round(taken_s, 3),
        "records_per_s": round(count / taken_s, 1),
        "mb_per_s": round(size / taken_s / 1e6, 3),
    }


async def _reader(cluster: Cluster, drain: Drain) -> tuple[TopicReader, int]:
    admin = Admin.over(cluster)
    topic = await cluster.topic(drain.topic)
    indexes = drain.partitions or [partition.index for partition in topic.partitions]
    ends = await resolve(admin, drain.topic, indexes, Moment("latest"))
    positions = await resolve(admin, drain.topic, indexes, drain.begin)
    available = sum(max(0, ends[index] - positions[index]) for index in indexes)
    settings = ReaderSettings(partition_bytes_max=drain.fetch_bytes)
    return TopicReader(cluster, drain.topic, positions, ends=ends, settings=settings), available


def _count(fetched: Fetched, decode: bool) -> tuple[int, int]:
    """Records and bytes in what a fetch brought."""
    size = len(fetched.data) if fetched.data is not None else 0
    if decode:
        return sum(1 for _ in fetched.records()), size
    return sum(h.record_count for h, _ in fetched.batches() if not h.is_control), size
