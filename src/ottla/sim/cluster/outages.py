"""Faults of nodes, each from its beginning to its end, after which the node goes on."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator

from ottla.sim.cluster.fleet import Fleet
from ottla.sim.cluster.shape import DATA_DIR
from ottla.sim.world import World

CRASH_WITHIN_OPERATIONS = 60
CRASH_WAIT_S = 3.0


class Outages:
    def __init__(self, world: World, fleet: Fleet, chance: random.Random) -> None:
        self.world = world
        self.fleet = fleet
        self.chance = chance
        self._taken: set[int] = set()
        """Nodes that a fault under way will start again: no other fault may touch them."""
        minority = (len(fleet.shape.nodes) - 1) // 2
        self._down_max = max(1, minority) if chance.random() < 0.7 else len(fleet.shape.nodes)

    def _free(self) -> list[int]:
        return [node_id for node_id in self.fleet.hosts if node_id not in self._taken]

    @contextlib.contextmanager
    def taking(self, node_id: int) -> Iterator[None]:
        self._taken.add(node_id)
        try:
            yield
        finally:
            self._taken.discard(node_id)

    @contextlib.contextmanager
    def one_node(self, among: list[int] | None = None) -> Iterator[int | None]:
        """Yield a node without a fault under way, or None if enough nodes have one already."""
        free = [one for one in self._free() if among is None or one in among]
        if len(self._taken) >= self._down_max or not free:
            yield None
            return
        node_id = self.chance.choice(free)
        with self.taking(node_id):
            yield node_id

    def _some_seconds(self) -> float:
        """Return a duration, from too short to be noticed to longer than any timeout."""
        return self.chance.expovariate(1.0) * self.chance.choice((0.1, 1.0, 4.0, 8.0))

    # Crashes.

    async def kill(self) -> None:
        with self.one_node() as node_id:
            if node_id is not None:
                self.fleet.kill(node_id)
                await self.start_again(node_id)

    async def crash_inside(self) -> None:
        """Crash the node inside one of its next disk operations."""
        with self.one_node() as node_id:
            if node_id is None or not self.fleet.is_up(node_id):
                return
            host = self.fleet.hosts[node_id]
            self.world.crash_within(host, self.chance.randrange(CRASH_WITHIN_OPERATIONS))
            await asyncio.sleep(CRASH_WAIT_S)
            self.fleet.kill(node_id)
            await self.start_again(node_id)

    async def restart(self) -> None:
        """Stop and start the node in good order, as in a rolling upgrade."""
        with self.one_node() as node_id:
            if node_id is not None and self.fleet.is_up(node_id):
                await self.fleet.stop(node_id)
                await self.start_again(node_id)

    async def start_again(self, node_id: int) -> None:
        await asyncio.sleep(self._some_seconds())
        self.start(node_id)

    def start(self, node_id: int) -> None:
        if not self.fleet.is_up(node_id):
            self.fleet.start(node_id)

    # Pauses and network faults.

    async def freeze(self) -> None:
        with self.one_node() as node_id:
            if node_id is not None and self.fleet.is_up(node_id):
                seconds = self._some_seconds()
                self.world.pause(self.fleet.hosts[node_id], seconds)
                await asyncio.sleep(seconds)

    async def isolate(self) -> None:
        """Cut one node off from all others, in one direction or both."""
        host = self.chance.choice(list(self.fleet.hosts.values()))
        others = [other for other in self.fleet.hosts.values() if other != host]
        one_way, inward = self.chance.random() < 0.4, self.chance.random() < 0.5
        for other in others:
            one, another = (other, host) if inward else (host, other)
            self.world.network.partition(one, another, one_way=one_way)
        await asyncio.sleep(self._some_seconds())
        for other in others:
            self.world.network.heal(host, other)

    async def cut_pair(self) -> None:
        hosts = list(self.fleet.hosts.values())
        if len(hosts) < 2:
            return
        one, other = self.chance.sample(hosts, 2)
        self.world.network.partition(one, other, one_way=self.chance.random() < 0.5)
        await asyncio.sleep(self._some_seconds())
        self.world.network.heal(one, other)

    async def clog(self) -> None:
        seconds = self._some_seconds()
        self.world.network.pause(self.chance.choice(list(self.fleet.hosts.values())), seconds)
        await asyncio.sleep(seconds)

    async def cut_connections(self) -> None:
        host = self.chance.choice(list(self.fleet.hosts.values()))
        self.world.network.cut_connections(host, rate=self.chance.choice((0.2, 1.0)))

    async def duplicate_connections(self) -> None:
        """Cut connections, and let some of the new ones reach their listener twice."""
        network = self.world.network
        network.ghost_rate = self.chance.choice((0.2, 1.0))
        try:
            await self.cut_connections()
            await asyncio.sleep(self._some_seconds())
        finally:
            network.ghost_rate = 0.0

    # Wrong clocks and wrong bits.

    async def set_clock(self) -> None:
        host = self.chance.choice(list(self.fleet.hosts.values()))
        self.world.machine(host).clock.jump(self.chance.randint(-20_000, 20_000))

    async def flip_bits(self) -> None:
        """Return wrong bits from the disk while the node runs. At start-up recovery would truncate
        records that are right, and no broker promises to survive that."""
        with self.one_node() as node_id:
            if node_id is None or not self.fleet.is_up(node_id):
                return
            faults = self.world.machine(self.fleet.hosts[node_id]).faults
            faults.flip_rate = self.chance.choice((0.01, 0.2))
            faults.flipped_below = self._folders_of_records(node_id)
            await asyncio.sleep(self._some_seconds())
            faults.flip_rate = 0.0

    def _folders_of_records(self, node_id: int) -> tuple[str, ...]:
        """Return path prefixes of the topics that hold the history; if none are known in advance,
        of all topics that are not internal."""
        names = [topic.name for topic in self.fleet.shape.topics]
        metadata = self.fleet.nodes[node_id].metadata
        if not names and metadata is not None:
            known = (topic.name for topic in metadata.image.topics.values())
            names = [name for name in known if not name.startswith("__")]
        return tuple(f"{DATA_DIR}/{name}-" for name in names)

    def heal(self) -> None:
        for node_id, host in self.fleet.hosts.items():
            machine = self.world.machine(host)
            if machine.is_up and machine.runtime is not None:
                machine.runtime.process.operations_until_crash = None
            machine.faults.flip_rate = 0.0
            if machine.faults.struck:
                self.fleet.kill(node_id, power_loss=True)
                machine.faults.heal()
            if not machine.is_up:
                self.fleet.start(node_id)
