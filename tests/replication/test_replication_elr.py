"""The last in sync fails: who left before it, with all that is committed, leads (KIP-966)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from replicated import create, followers_of, isr, leader_of, node, produce, replica, until

from ottla import Admin, Consumer, Producer, TopicPartition
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.storage.dirs.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from ottla.client.admin.topics import EligibleLeaders
from ottla.protocol.uuids import random_uuid
from ottla.runtime.os_disk import OsDisk
from ottla.testing import AsyncCluster, async_cluster

SETTINGS = {"broker.session.timeout.ms": 3000, "min.insync.replicas": 2}


def with_cluster(test: Callable[[AsyncCluster], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with async_cluster(3, settings=SETTINGS, **options) as cluster:
            await test(cluster)

    asyncio.run(main())


def newest(cluster: AsyncCluster) -> PartitionImage:
    running = [view.id for view in cluster.nodes.values() if view.state == "running"]
    images = (node(cluster, number).metadata.image for number in running)
    found = max(images, key=lambda image: image.offset).partition("t", 0)
    assert found is not None
    return found


def replace_disk(cluster: AsyncCluster, number: int, *, same_id: bool) -> None:
    """Nothing is left but what `ottla storage format` writes."""
    folder = Path(cluster.nodes[number].folder)
    known = read_meta_properties(OsDisk(), str(folder))
    assert known is not None
    shutil.rmtree(folder)
    OsDisk().make_dirs(str(folder))
    identity = known.directory_id if same_id else random_uuid(Random(1))
    write_meta_properties(OsDisk(), str(folder), MetaProperties(known.cluster_id, number, identity))


def cut(cluster: AsyncCluster, number: int, size: int) -> None:
    """As a loss of power does: the end of the log is gone, and nothing says that it was closed."""
    folder = Path(cluster.nodes[number].folder)
    (folder / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (segment,) = (folder / "t-0").glob("*.log")
    with segment.open("r+b") as file:
        file.truncate(size)


async def records(cluster: AsyncCluster, count: int) -> list[bytes]:
    async with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        found: list[bytes] = []
        async with asyncio.timeout(20):
            while len(found) < count:
                for batch in (await consumer.poll(500)).values():
                    found += [record.value for record in batch]
        return found


@pytest.mark.parametrize("same_id", [True, False])
def test_all_stop_the_disk_of_the_last_is_replaced_and_nothing_is_lost(same_id: bool) -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster)
        await produce(cluster, 0, 100)
        last = leader_of(cluster)
        others = [number for number in cluster.nodes if number != last]
        for number in others:
            await cluster.stop(number)
        await cluster.stop(last)
        replace_disk(cluster, last, same_id=same_id)
        await cluster.start(last, *others)
        await until(lambda: cluster.leader_of("t") in others)
        assert sorted(await records(cluster, 100), key=int) == [b"%d" % n for n in range(100)]
        await until(lambda: isr(cluster) == {1, 2, 3})
        assert newest(cluster).eligible_leader_replicas == ()

    with_cluster(test)


def test_the_last_in_sync_loses_its_end_comes_back_first_and_does_not_lead() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster)
        await produce(cluster, 0, 50)
        last = leader_of(cluster)
        gone, eligible = [number for number in cluster.nodes if number != last]
        await cluster.stop(gone)
        await until(lambda: isr(cluster) == {last, eligible})
        await produce(cluster, 50, 50)
        await cluster.stop(eligible)
        await cluster.kill(last)
        cut(cluster, last, 100)
        await cluster.start(last, gone)
        await until(lambda: newest(cluster).last_known_elr == (last,))
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            found = await admin.describe_eligible_leaders()
            assert found[TopicPartition("t", 0)] == EligibleLeaders((eligible,), (last,))
        assert cluster.leader_of("t") is None
        await cluster.start(eligible)
        await until(lambda: cluster.leader_of("t") == eligible)
        assert sorted(await records(cluster, 100), key=int) == [b"%d" % n for n in range(100)]

    with_cluster(test)


def test_a_leader_alone_shows_nothing_new_and_loses_only_that() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster, replicas=2)
        await produce(cluster, 0, 20)
        leader, (follower,) = leader_of(cluster), followers_of(cluster)
        await cluster.stop(follower)
        await until(lambda: newest(cluster).eligible_leader_replicas == (follower,))
        async with Producer(bootstrap_servers=cluster.bootstrap_servers, acks=1) as producer:
            await (await producer.send("t", value=b"alone"))
        assert replica(cluster, leader).high_watermark == 20
        await cluster.kill(leader)
        await cluster.start(follower)
        await until(lambda: cluster.leader_of("t") == follower)
        await cluster.start(leader)
        await until(lambda: len(isr(cluster)) == 2)
        await produce(cluster, 20, 1)
        assert b"alone" not in await records(cluster, 21)

    with_cluster(test)
