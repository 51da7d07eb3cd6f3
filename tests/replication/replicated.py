"""A cluster in a test, looked at from inside: its replicas and what they say to each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla import Admin, NewTopic, Producer
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.replication.partition import Partition
from ottla.node import Node
from ottla.protocol.schema import Message
from ottla.testing import AsyncCluster

WITHIN_S = 20.0


def node(cluster: AsyncCluster, number: int) -> Node:
    found = cluster._group._nodes[number].node
    assert found is not None, f"node {number} is down"
    return found


def replica(cluster: AsyncCluster, number: int, topic: str = "t", index: int = 0) -> Partition:
    return node(cluster, number).replicas.topics[topic].partitions[index]


def leader_of(cluster: AsyncCluster, topic: str = "t", index: int = 0) -> int:
    leader = cluster.leader_of(topic, index)
    assert leader is not None
    return leader


def followers_of(cluster: AsyncCluster, topic: str = "t", index: int = 0) -> list[int]:
    leader = leader_of(cluster, topic, index)
    image = newest_image(cluster).partition(topic, index)
    assert image is not None
    return [number for number in image.replicas if number != leader]


def isr(cluster: AsyncCluster, topic: str = "t", index: int = 0) -> set[int]:
    image = newest_image(cluster).partition(topic, index)
    return set() if image is None else set(image.isr)


def newest_image(cluster: AsyncCluster) -> MetadataImage:
    """That of the node that knows most: others may not have heard of the last change yet."""
    return max(running_images(cluster), key=lambda image: image.offset)


def running_images(cluster: AsyncCluster) -> list[MetadataImage]:
    running = [view.id for view in cluster.nodes.values() if view.state == "running"]
    return [node(cluster, number).metadata.image for number in running]


async def ask(cluster: AsyncCluster, number: int, request: Message, version: int) -> Any:
    """What a broker answers to anybody who asks."""

    async def post() -> Any:
        one = node(cluster, number)
        host, port = one.addresses[0]
        return await one.peers.post(
            host, port, request, timeout_ms=10_000, version=version, lane="test"
        )

    return await cluster._wait(post)


async def create(
    cluster: AsyncCluster,
    topic: str = "t",
    replicas: int = 3,
    partitions: int = 1,
    **config: str,
) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        made = NewTopic(topic, partitions=partitions, replication_factor=replicas, configs=settings)
        await admin.create_topics([made])
    await until(lambda: cluster.leader_of(topic) is not None)
    await until(lambda: len(isr(cluster, topic)) == replicas)
    await until(lambda: all(topic in image.topics for image in running_images(cluster)))


async def produce(cluster: AsyncCluster, first: int, count: int, topic: str = "t") -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        sent = [await producer.send(topic, value=b"%d" % (first + n)) for n in range(count)]
        await producer.flush()
        for one in sent:
            await one


async def until(condition: Callable[[], object], within_s: float = WITHIN_S) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  # what changes tells nobody
            await asyncio.sleep(0.02)


def bytes_of(partition: Partition) -> bytes:
    """Its whole log."""
    log = partition.log
    assert log is not None
    data = b""
    for segment in log.segments:
        data += segment.files.file.read_at(0, segment.size)
    return data
