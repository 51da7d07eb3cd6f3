"""Controllers in the simulated world: their metadata logs, and the server that answers for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from ottla.broker.metadata.image import Endpoint, MetadataImage
from ottla.broker.metadata.log import MetadataLog
from ottla.broker.peers.connected import ConnectedPeers
from ottla.broker.server.authorizer import Authorizer
from ottla.broker.server.contract import CONTROLLERS
from ottla.broker.server.server import Server
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener
from ottla.protocol.errors import KafkaError
from ottla.protocol.metadata_records.topic_record import TopicRecord
from ottla.sim import SimRuntime, World
from ottla.sim.process import ProcessDied

T = TypeVar("T")

PORT = 9093
FOLDER = "/data"
CLUSTER_ID = "cluster"


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"topic-{number}", topic_id=number.to_bytes(16, "big"))


class QuorumNode:
    """As much of a node, and of its services, as handlers need to answer for the quorum."""

    def __init__(self, runtime: SimRuntime, node_id: int, config: BrokerConfig) -> None:
        self.runtime = runtime
        self.config = config
        self.node_id = node_id
        self.failures: list[Exception] = []
        self.peers = ConnectedPeers(runtime)
        self.server = Server(runtime, config, lambda path, cause: None)
        self.metadata: MetadataLog
        self.authorizer: Authorizer | None = None
        self.is_open = False

    async def start(self, *, clean: bool) -> None:
        host = self.runtime.process.host
        self.server.listen(Listener("CONTROLLER", "", PORT), CONTROLLERS)
        self.metadata = await MetadataLog.open(
            self.runtime,
            FOLDER,
            node_id=self.node_id,
            cluster_id=CLUSTER_ID,
            config=self.config,
            clean=clean,
            on_failure=self.failures.append,
            directory_id=bytes([self.node_id]) * 16,
            peers=self.peers,
            endpoints=(Endpoint("CONTROLLER", host, PORT),),
        )
        self.server.start_serving(CONTROLLERS, self)  # type: ignore[arg-type]
        self.is_open = True

    async def stop(self) -> None:
        self.is_open = False
        await self.metadata.close()
        self.server.close()
        self.peers.close()


class QuorumWorld:
    def __init__(
        self, seed: int, nodes: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        self.world = World(seed, time_limit_s=3600)
        self.settings = settings or {}
        self.ids = list(range(1, nodes + 1))
        self.voters = ",".join(f"{i}@{host(i)}:{PORT}" for i in self.ids)
        self.nodes: dict[int, QuorumNode] = {}
        self.random = self.world.chance("story")

    def config(self, node_id: int, settings: Mapping[str, str]) -> BrokerConfig:
        return BrokerConfig.parse(
            {
                "node.id": str(node_id),
                "process.roles": "controller",
                "listeners": f"CONTROLLER://:{PORT}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": self.voters,
                **self.settings,
                **settings,
            }
        )

    def run(self, story: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self.world.run(story())

    # Machines

    async def start(
        self, node_id: int, *, clean: bool = False, settings: Mapping[str, str] | None = None
    ) -> QuorumNode:
        runtime = self.world.boot(host(node_id))
        node = QuorumNode(runtime, node_id, self.config(node_id, settings or {}))
        self.nodes[node_id] = node
        await runtime.run(node.start(clean=clean), name="start")
        return node

    async def start_all(self) -> None:
        for node_id in self.ids:
            await self.start(node_id)

    async def stop(self, node_id: int) -> None:
        node = self.nodes.pop(node_id)
        await node.runtime.run(node.stop(), name="stop")
        self.world.crash(host(node_id))

    def crash(self, node_id: int, *, power_loss: bool = True) -> None:
        self.nodes.pop(node_id, None)
        self.world.crash(host(node_id), power_loss=power_loss)

    def cut_off(self, node_id: int) -> None:
        for other in self.ids:
            if other != node_id:
                self.world.network.partition(host(node_id), host(other))

    def forget_crashed(self) -> list[int]:
        """Those that died by themselves, inside of a disk operation."""
        died = [i for i, node in self.nodes.items() if not node.runtime.process.alive]
        for node_id in died:
            del self.nodes[node_id]
        return died

    # What they do

    def on(self, node_id: int, work: Callable[[MetadataLog], Awaitable[T]]) -> asyncio.Future[T]:
        node = self.nodes[node_id]

        async def run() -> T:
            return await work(node.metadata)

        return node.runtime.run(run(), name="work")

    def leader(self) -> int | None:
        """The one that decides in the highest epoch."""
        leading = [
            (node.metadata.epoch, i)
            for i, node in self.nodes.items()
            if node.is_open and node.runtime.process.alive and node.metadata.is_leader
        ]
        return max(leading)[1] if leading else None

    async def elected(self, *, among: list[int] | None = None, within_s: float = 30) -> int:
        def chosen() -> bool:
            leader = self.leader()
            return leader is not None and (among is None or leader in among)

        await self.until(chosen, within_s=within_s)
        leader = self.leader()
        assert leader is not None
        return leader

    async def write(self, number: int, *, within_s: float = 30) -> None:
        """Create the topic; returns when it is committed, however often that takes."""
        async with asyncio.timeout(within_s):
            while not await self.try_write(number):  # noqa: ASYNC110  # virtual time
                await asyncio.sleep(0.05)

    async def try_write(self, number: int) -> bool:
        leader = self.leader()
        if leader is None:
            return False
        if f"topic-{number}" in self.nodes[leader].metadata.image.topics:
            return True
        try:
            await self.on(leader, lambda log: log.append([topic(number)]))
        except (KafkaError, ProcessDied, ValueError):
            return False
        return True

    async def until(self, holds: Callable[[], bool], *, within_s: float = 30) -> None:
        async with asyncio.timeout(within_s):
            while not holds():  # noqa: ASYNC110  # virtual time costs nothing
                await asyncio.sleep(0.01)

    async def agreed(self, *, within_s: float = 60) -> MetadataImage:
        """Wait until all have the same image."""

        def same() -> bool:
            images = [node.metadata.image for node in self.nodes.values()]
            return len({(i.offset, i.epoch) for i in images}) == 1 and self.leader() is not None

        await self.until(same, within_s=within_s)
        images = [node.metadata.image for node in self.nodes.values()]
        assert all(dict(i.topics) == dict(images[0].topics) for i in images)
        return images[0]


def host(node_id: int) -> str:
    return f"controller-{node_id}"
