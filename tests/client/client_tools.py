"""Running a piece of client work against a real broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.client.admin.admin import Admin
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.consume import ReaderSettings, TopicReader
from ottla.client.network.addresses import parse_addresses
from ottla.client.network.cluster import Cluster
from ottla.client.network.leaders import all_or_raise
from ottla.client.values import TopicPartition
from ottla.records.record import Record
from ottla.runtime.os_runtime import OsRuntime, run

T = TypeVar("T")


def on_cluster(
    bootstrap: str, work: Callable[[Cluster], Awaitable[T]], *, retry_within_ms: int = 15_000
) -> T:
    async def main(runtime: OsRuntime) -> T:
        addresses = parse_addresses(bootstrap)
        async with Cluster(runtime, addresses, retry_within_ms=retry_within_ms) as cluster:
            return await work(cluster)

    return run(main)


async def read_all(
    cluster: Cluster, topic: str, settings: ReaderSettings | None = None
) -> dict[int, list[Record]]:
    """Every record of a topic by partition, from the earliest to what is the latest now."""
    admin = Admin.over(cluster)
    indexes = [partition.index for partition in (await cluster.topic(topic)).partitions]
    places = [TopicPartition(topic, index) for index in indexes]
    starts = all_or_raise(await admin.list_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST)))
    ends = all_or_raise(await admin.list_offsets(dict.fromkeys(places, OffsetSpec.LATEST)))
    reader = TopicReader(
        cluster,
        topic,
        {one.partition: at.offset for one, at in starts.items()},
        ends={one.partition: at.offset for one, at in ends.items()},
        settings=settings,
    )
    found: dict[int, list[Record]] = {index: [] for index in indexes}
    async for fetched in reader.fetches():
        found[fetched.partition] += fetched.records()
    return found
