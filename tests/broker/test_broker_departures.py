"""Nodes that stop, pause, come back, or meet another with their id."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from broker_nodes import BOTH, Cluster, until, with_cluster

from ottla import Admin, NewTopic, Producer
from ottla.broker.membership.lifecycle import IdTaken
from ottla.broker.metadata.image import NO_LEADER
from ottla.broker.storage.errors import StorageError
from ottla.node import Node
from ottla.protocol.schema import Message
from ottla.runtime.os_runtime import OsRuntime, run

LONG_SESSION = {"broker_session_timeout_ms": "60000"}
"""So that nobody is fenced for being silent: what happens was asked for."""


async def create(cluster: Cluster, name: str, partitions: int = 6) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(name, partitions=partitions, replication_factor=3)])
    for image in cluster.images:
        await until(lambda image=image: name in image().topics)


def leaders(node: Node, topic: str) -> set[int]:
    return {p.leader for p in node.metadata.image.topics[topic].partitions.values()}


def in_sync(node: Node, topic: str, ids: set[int]) -> bool:
    return all(set(p.isr) == ids for p in node.metadata.image.topics[topic].partitions.values())


@pytest.mark.parametrize("which", ["active", "follower"])
def test_a_node_that_is_stopped_hands_over_what_it_leads_first(tmp_path: Path, which: str) -> None:
    async def test(cluster: Cluster) -> None:
        await create(cluster, "t")
        leaving: Node = getattr(cluster, which)
        await until(lambda: in_sync(leaving, "t", {1, 2, 3}))
        assert leaving.node_id in leaders(leaving, "t")
        led_when_closed: list[set[int]] = []
        stop_serving = leaving.server.stop_serving

        def stop(kind: str) -> None:
            led_when_closed.append(leaders(leaving, "t"))
            stop_serving(kind)

        leaving.server.stop_serving = stop  # type: ignore[method-assign]
        began = asyncio.get_running_loop().time()
        await cluster.stop(leaving.node_id)
        took_s = asyncio.get_running_loop().time() - began
        led = led_when_closed[0]
        assert leaving.node_id not in led
        assert NO_LEADER not in led
        assert took_s < 4

    with_cluster(tmp_path, test, **LONG_SESSION)


def test_a_cluster_is_restarted_node_by_node_while_records_are_written(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        await create(cluster, "t", partitions=3)
        async with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            sent = []
            for node_id in list(cluster.nodes):
                sent += [await producer.send("t", value=b"x" * 10) for _ in range(50)]
                await cluster.stop(node_id)
                sent += [await producer.send("t", value=b"x" * 10) for _ in range(50)]
                await cluster.start(node_id)
                node = cluster.nodes[node_id]
                await until(lambda node=node: in_sync(node, "t", {1, 2, 3}))
            await producer.flush()
            offsets = {(one.partition, one.offset) for one in [await s for s in sent]}
        assert len(offsets) == 300
        epochs = [node.broker_epoch for node in cluster.nodes.values()]
        assert len(set(epochs)) == 3

    with_cluster(tmp_path, test)


def test_a_whole_cluster_comes_back_with_its_topics(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        await create(cluster, "t")
        await cluster.stop_all()
        await cluster.start()
        for node in cluster.nodes.values():
            await until(lambda node=node: NO_LEADER not in leaders(node, "t"))
            assert not node.broker.lifecycle.is_fenced

    with_cluster(tmp_path, test)


def active(cluster: Cluster) -> list[Node]:
    """The active controller, or nothing during an election, which a busy machine may cause."""
    return [node for node in cluster.nodes.values() if node.metadata.is_leader]


def test_a_broker_that_was_silent_finds_itself_fenced_and_comes_back(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        await create(cluster, "t")
        paused = cluster.follower
        await until(lambda: in_sync(paused, "t", {1, 2, 3}))
        ask = paused.broker.lifecycle._ask

        epoch = paused.broker_epoch
        hold = asyncio.Event()

        async def held(request: Message, **options: Any) -> Any:
            await hold.wait()
            return await ask(request, **options)

        paused.broker.lifecycle._ask = held
        image = cluster.active.metadata
        await until(lambda: image.image.brokers[paused.node_id].fenced)
        await until(
            lambda: any(paused.node_id not in leaders(node, "t") for node in active(cluster))
        )
        hold.set()
        await until(lambda: not image.image.brokers[paused.node_id].fenced)
        await until(lambda: not paused.broker.lifecycle.is_fenced)
        assert paused.broker_epoch == epoch
        await until(lambda: any(in_sync(node, "t", {1, 2, 3}) for node in active(cluster)))

    with_cluster(tmp_path, test)


def test_a_second_node_with_a_taken_id_is_refused_and_says_so(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        twin = cluster.twin(4, tmp_path / "twin")
        with pytest.raises(IdTaken, match="another process is registered as broker 4"):
            await twin.start()
        await twin.runtime.close()
        assert not cluster.nodes[4].failure.done()

    with_cluster(
        tmp_path,
        test,
        (BOTH, BOTH, BOTH, "broker"),
        initial_broker_registration_timeout_ms="500",
    )


def test_a_node_waits_for_the_others_and_can_be_stopped_meanwhile(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.stop_all()
        waiting = asyncio.ensure_future(cluster.start(1))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await cluster.nodes.pop(1).runtime.close()

    with_cluster(tmp_path, test)


def test_an_unformatted_folder_is_refused_in_a_cluster(tmp_path: Path) -> None:
    async def main(runtime: OsRuntime) -> None:
        cluster = Cluster(tmp_path, (BOTH, BOTH, BOTH), {})
        with pytest.raises(StorageError, match="ottla storage format"):
            await Node(runtime, cluster.config(1)).start()

    run(main)
