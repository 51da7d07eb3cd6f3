"""Running a piece of client work against a real broker."""

from __future__ import annotations

from typing import TypeVar

from ottla.client.consumer.consumer import Consumer
from ottla.client.network.cluster import Cluster
from ottla.client.values import AnyRecord, TopicPartition

T = TypeVar("T")


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
