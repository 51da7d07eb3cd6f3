"""Running a piece of client work against a real broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.client.consumer.consumer import Consumer
from ottla.client.network.cluster import Cluster
from ottla.client.settings.common import ClientSettings
from ottla.client.values import AnyRecord, TopicPartition
from ottla.runtime.os_runtime import OsRuntime, run

T = TypeVar("T")


def on_cluster(
    bootstrap: str, work: Callable[[Cluster], Awaitable[T]], *, retry_within_ms: int = 15_000
) -> T:
    async def main(runtime: OsRuntime) -> T:
        settings = ClientSettings(
            bootstrap_servers=bootstrap, default_api_timeout_ms=retry_within_ms
        )
        async with Cluster.of(settings, runtime) as cluster:
            return await work(cluster)

    return run(main)


async def read_all(cluster: Cluster, topic: str) -> dict[int, list[AnyRecord]]:
    """Every record of a topic by partition, from the earliest to what is the latest now."""
    indexes = [partition.index for partition in (await cluster.topic(topic)).partitions]
    partitions = [TopicPartition(topic, index) for index in indexes]
    found: dict[int, list[AnyRecord]] = {index: [] for index in indexes}
    async with Consumer.over(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(one) < end for one, end in ends.items()]):
            for one, records in (await consumer.poll(100)).items():
                found[one.partition] += records
    return found
