"""Nodes of one cluster in one process, on one loop: real sockets, a folder each.

Apart from the tests, so that they can say in a few lines which roles there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ottla.broker.metadata.image import MetadataImage
from ottla.broker.peers.peers import Peers
from ottla.broker.storage.dirs.meta_properties import MetaProperties, write_meta_properties
from ottla.config.broker import BrokerConfig
from ottla.node import Node
from ottla.protocol.uuids import random_uuid, to_text
from ottla.runtime.os_runtime import OsRuntime, run
from ottla.runtime.ports import free_ports

BOTH = "broker,controller"

QUICK = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1500",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "default.replication.factor": "3",
}


class Cluster:
    """Node ids count from 1. A node keeps its folder and its ports over its lives."""

    def __init__(self, folder: Path, roles: Sequence[str], settings: dict[str, str]) -> None:
        self.folder = folder
        self.roles = dict(enumerate(roles, 1))
        self.nodes: dict[int, Node] = {}
        self._runtimes: dict[int, OsRuntime] = {}
        ports = iter(free_ports(2 * len(roles)))
        self._ports = dict(zip(self.roles, ports, strict=False))
        self._broker_ports = dict(zip(self.roles, ports, strict=False))
        self._settings = settings
        self._formatted: set[int] = set()

    @property
    def bootstrap(self) -> str:
        ids = [node_id for node_id, roles in self.roles.items() if "broker" in roles]
        return ",".join(f"127.0.0.1:{self._broker_ports[node_id]}" for node_id in ids)

    def address(self, node_id: int) -> str:
        return f"127.0.0.1:{self._broker_ports[node_id]}"

    @property
    def images(self) -> list[Callable[[], MetadataImage]]:
        """What each node knows of the cluster, as of now."""
        return [lambda node=node: node.metadata.image for node in self.nodes.values()]  # type: ignore[misc]

    def is_whole(self) -> bool:
        """Whether every node knows every broker as one that serves."""
        ids = {node_id for node_id, roles in self.roles.items() if "broker" in roles}
        return all(
            {broker.id for broker in image().brokers.values() if broker.is_active} == ids
            for image in self.images
        )

    @property
    def follower(self) -> Node:
        """One that is not the active controller."""
        return next(node for node in self.nodes.values() if not node.metadata.is_leader)

    @property
    def peers(self) -> Peers:
        """To ask nodes in Kafka's protocol."""
        return next(iter(self.nodes.values())).peers

    @property
    def active(self) -> Node:
        (leader,) = [node for node in self.nodes.values() if node.metadata.is_leader]
        return leader

    def config(self, node_id: int) -> BrokerConfig:
        roles = self.roles[node_id]
        voters = [i for i, theirs in self.roles.items() if "controller" in theirs]
        listeners = []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://127.0.0.1:{self._broker_ports[node_id]}")
        if "controller" in roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{self._ports[node_id]}")
        return BrokerConfig.parse(
            {
                "node.id": str(node_id),
                "process.roles": roles,
                "log.dirs": str(self.folder / str(node_id)),
                "listeners": ",".join(listeners),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": ",".join(
                    f"{i}@127.0.0.1:{self._ports[i]}" for i in voters
                ),
                **QUICK,
                **self._settings,
            }
        )

    async def start(self, *ids: int) -> None:
        """These nodes, or all, at the same time: none is ready before a majority is there."""
        await asyncio.gather(*(self._start(node_id) for node_id in ids or self.roles))

    async def _start(self, node_id: int) -> None:
        runtime = self._runtimes[node_id] = OsRuntime()
        config = self.config(node_id)
        if node_id not in self._formatted:
            self._format(runtime, node_id, config)
        node = self.nodes[node_id] = Node(runtime, config)
        await node.start()

    def _format(self, runtime: OsRuntime, node_id: int, config: BrokerConfig) -> None:
        self._formatted.add(node_id)
        (path,) = config.log_dirs
        runtime.disk.make_dirs(path)
        cluster_id = to_text(b"a cluster's id..")
        properties = MetaProperties(cluster_id, node_id, random_uuid(runtime.random))
        write_meta_properties(runtime.disk, path, properties)

    def twin(self, node_id: int, folder: Path) -> Node:
        """Another node with the same id, which is a mistake."""
        runtime = OsRuntime()
        config = self.config(node_id)
        port = free_ports(1)[0]
        given = dict(config.explicit) | {
            "log.dirs": str(folder),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        }
        config = BrokerConfig.parse(given)
        self._format(runtime, node_id, config)
        return Node(runtime, config)

    async def stop(self, *ids: int) -> None:
        for node_id in ids or list(self.nodes):
            await self.nodes.pop(node_id).stop()
            await self._runtimes.pop(node_id).close()

    async def stop_all(self) -> None:
        await asyncio.gather(*(self.stop(node_id) for node_id in list(self.nodes)))


@asynccontextmanager
async def running(
    folder: Path, roles: Sequence[str] = (BOTH, BOTH, BOTH), **settings: str
) -> AsyncIterator[Cluster]:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    cluster = Cluster(folder, roles, given)
    try:
        async with asyncio.timeout(30):
            await cluster.start()
        await until(cluster.is_whole)
        yield cluster
    finally:
        await cluster.stop_all()


def with_cluster(
    folder: Path,
    test: Callable[[Cluster], Awaitable[None]],
    roles: Sequence[str] = (BOTH, BOTH, BOTH),
    **settings: str,
) -> None:
    async def main(_: OsRuntime) -> None:
        async with running(folder, roles, **settings) as cluster:
            await test(cluster)

    run(main)


async def until(condition: Callable[[], bool], within_s: float = 15) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  # what changes tells nobody
            await asyncio.sleep(0.01)
