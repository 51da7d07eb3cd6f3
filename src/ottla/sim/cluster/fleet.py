"""The nodes of a simulated cluster: started, stopped and killed as programs on their machines."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ottla.broker.storage.dirs.meta_properties import MetaProperties, write_meta_properties
from ottla.config.broker import BrokerConfig
from ottla.node import Node
from ottla.protocol.uuids import random_uuid
from ottla.sim.cluster.metadata_folders import MetadataFolders
from ottla.sim.cluster.shape import CLUSTER_ID, DATA_DIR, Layout, NodeShape
from ottla.sim.cluster.voters.dynamic_quorum import STREAM
from ottla.sim.history import Violation
from ottla.sim.process import ProcessDied
from ottla.sim.runtime import SimRuntime
from ottla.sim.world import World

STOP_S_MAX = 120.0


class Fleet:
    def __init__(self, world: World, shape: Layout) -> None:
        self.world = world
        self.shape = shape
        self.nodes: dict[int, Node] = {}
        """Nodes whose program runs, by id; a node may still be starting."""
        self.serving: set[int] = set()
        """Nodes that have become ready since their last start."""
        self.hosts = {node.id: node.host for node in shape.nodes}
        self.metadata_folders = MetadataFolders(shape, world.chance(f"{STREAM}: folders"))
        self.stopped_by_disk: set[int] = set()
        """Nodes that ended by themselves because a disk failed, as they should."""
        self.troubles: list[str] = []
        """Problems that no injected fault explains."""

    def format(self) -> None:
        """Format all nodes before their first start, as `ottla storage format` does."""
        for node in self.shape.nodes:
            self._format(node)

    def _format(self, node: NodeShape) -> None:
        runtime = self.world.boot(node.host)
        runtime.disk.make_dirs(DATA_DIR)
        identity = random_uuid(self.world.random)
        write_meta_properties(runtime.disk, DATA_DIR, MetaProperties(CLUSTER_ID, node.id, identity))
        if self.shape.first_voters:
            self.metadata_folders.format(runtime, node)
        self.world.machine(node.host).volume.settle()
        self.world.crash(node.host)

    def add(self, node: NodeShape) -> None:
        """Add a node that is formatted and not started."""
        self.shape = replace(self.shape, nodes=(*self.shape.nodes, node))
        self.hosts[node.id] = node.host
        self._format(node)

    def is_up(self, node_id: int) -> bool:
        return self.world.machine(self.hosts[node_id]).is_up

    def running(self) -> Iterator[tuple[int, Node]]:
        for node_id, node in self.nodes.items():
            if self.is_up(node_id):
                yield node_id, node

    def quorum_leader(self) -> tuple[int | None, list[int]]:
        """Return the leader of the quorum and the voters it knows; both may change soon."""
        for node_id, node in self.running():
            if node.has_metadata and node.metadata.quorum.is_leader:
                return node_id, list(node.metadata.quorum.voter_ids)
        return None, []

    def metadata_start(self) -> int:
        """Return the median start of the nodes' metadata logs: 0, or the end of a snapshot."""
        starts = [
            node.metadata.quorum.log.start_offset for _, node in self.running() if node.has_metadata
        ]
        return statistics.median_low(starts)

    # Starting and stopping.

    def start(self, node_id: int) -> None:
        """Boot the machine and start the node; it serves when it is ready."""
        shape = self._shape_of(node_id)
        self.serving.discard(node_id)
        runtime = self.world.boot(shape.host)
        outcome = runtime.run(self._serve(runtime, shape), name=f"serve {node_id}")
        outcome.add_done_callback(lambda done: self._ended(node_id, done))

    def _shape_of(self, node_id: int) -> NodeShape:
        return next(node for node in self.shape.nodes if node.id == node_id)

    async def _serve(self, runtime: SimRuntime, shape: NodeShape) -> None:
        """Run the node as `ottla start` does, until it reports that it cannot go on."""
        config = BrokerConfig.parse(self.shape.node_settings(shape))
        node = self.nodes[shape.id] = Node(runtime, config)
        await node.start()
        self.serving.add(shape.id)
        self.world.trace.add(shape.host, "is ready")
        reason = await node.failure
        self.world.trace.add(shape.host, f"gives up: {reason}")
        await node.stop()
        raise reason

    def _ended(self, node_id: int, done: asyncio.Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is None or isinstance(error, ProcessDied):
            return
        host = self.hosts[node_id]
        if self.world.machine(host).faults.struck:
            self.stopped_by_disk.add(node_id)
        else:
            self.troubles.append(f"{host} ended by itself: {error!r}")
        self.kill(node_id)

    def kill(self, node_id: int, *, power_loss: bool = False) -> None:
        self._note_failures(node_id)
        self.world.crash(self.hosts[node_id], power_loss=power_loss)

    def replace_metadata_disk(self, node_id: int) -> None:
        """Kill the node and replace its metadata disk with an empty one."""
        self.kill(node_id)
        shape = self._shape_of(node_id)
        self.metadata_folders.replace(self.world.boot(shape.host), shape)
        self.world.machine(shape.host).volume.settle()
        self.world.crash(shape.host)

    async def stop(self, node_id: int) -> None:
        """Stop the node as SIGTERM does. The node is not blamed if a fault kills it meanwhile."""
        runtime = self.world.machine(self.hosts[node_id]).runtime
        assert runtime is not None
        try:
            async with asyncio.timeout(STOP_S_MAX):
                await runtime.run(self._close(runtime, self.nodes[node_id]), name="stop")
        except ProcessDied:
            return
        except asyncio.CancelledError:
            self.kill(node_id)  # or its process would stay alive after the stop
            raise
        except TimeoutError:
            raise Violation(f"{self.hosts[node_id]} did not stop in {STOP_S_MAX} s") from None
        if runtime.process.alive:
            self.kill(node_id)

    async def _close(self, runtime: SimRuntime, node: Node) -> None:
        await node.stop()
        await runtime.close()

    # Errors that no fault explains.

    def _note_failures(self, node_id: int) -> None:
        host = self.hosts[node_id]
        runtime = self.world.machine(host).runtime
        if runtime is not None and runtime.failures:
            if not self.world.machine(host).faults.struck:
                self.troubles += [f"{host}: {failure}" for failure in runtime.failures]
            runtime.failures.clear()

    def check(self) -> None:
        """Raise if anything failed that no injected fault explains."""
        for node_id, _ in self.running():
            self._note_failures(node_id)
        if troubles := [*self.troubles, *self.world.loop.failures]:
            raise Violation("errors that nobody handled: " + "; ".join(troubles))
