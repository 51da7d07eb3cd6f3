"""Injects one fault after another into a cluster, within what it must survive (`promises`).

Every seed draws the kinds of faults (a run with all kinds hides what a run with only pauses finds),
how often they come and how many nodes may be down at a time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ottla.sim.cluster.fleet import Fleet
from ottla.sim.cluster.lost_disks import LostDisks
from ottla.sim.cluster.outages import Outages
from ottla.sim.cluster.power import PowerFailures
from ottla.sim.cluster.shape import SPLIT_RATES
from ottla.sim.cluster.stranding import Stranding
from ottla.sim.weather import drawn
from ottla.sim.world import World

AT_ONCE_MAX = 3
HARMLESS = frozenset({"change_weather"})
"""Faults after which a client may not get an error."""
KIND_RATE = 0.6


@dataclass(frozen=True)
class Storm:
    """The storm that a run asks for; fields that are None are drawn."""

    seconds: float = 60.0
    kinds: tuple[str, ...] | None = None
    """The only faults to inject, by name."""
    pause_s: float | None = None
    """Mean time between the beginnings of two faults."""
    working: bool = True
    """True if clients run; else only the state of the nodes is checked."""
    stream: str = "nemesis"
    """The name of its random stream. A second storm in a run needs another one, or it would repeat
    the first."""

    @property
    def is_fair(self) -> bool:
        """True if no fault is injected that may give a client an error."""
        return self.kinds is not None and HARMLESS.issuperset(self.kinds)


class Nemesis:
    def __init__(
        self,
        world: World,
        fleet: Fleet,
        clients: list[str],
        restart_client: Callable[[str], None],
        storm: Storm,
    ) -> None:
        self.world = world
        self.chance: random.Random = world.chance(storm.stream)
        self.count: dict[str, int] = {}
        self.spared: set[str] = set()
        """Clients that are cut off but never killed."""
        self._clients = clients
        self._restart_client = restart_client
        self._outages = Outages(world, fleet, self.chance)
        self._power = PowerFailures(world, fleet, self.chance, self._outages)
        self._power.is_alone = lambda: len(self._under_way) <= 1
        self._under_way: dict[asyncio.Task[None], None] = {}
        self._stranding = Stranding(fleet, clients, self.chance)
        self._lost_disks = LostDisks(fleet, self.chance, self._outages)
        self._pause_s = storm.pause_s or self.chance.choice((1.5, 3.0, 6.0))
        self._kinds = self._drawn_kinds(storm.kinds)

    def _drawn_kinds(
        self, only: tuple[str, ...] | None
    ) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        outages = self._outages
        kinds = [
            outages.kill,
            outages.crash_inside,
            outages.restart,
            outages.freeze,
            outages.isolate,
            outages.cut_pair,
            outages.clog,
            outages.cut_connections,
            outages.duplicate_connections,
            outages.set_clock,
            outages.flip_bits,
            self._power.fail_power,
            self._power.fail_disk,
            self._power.fail_last,
            self._power.swap_majorities,
            self._kill_client,
            self._cut_client,
            self._change_weather,
        ]
        if outages.fleet.shape.first_voters:
            kinds += [self._stranding.strand_leader, self._lost_disks.lose_metadata]
        if only is not None:
            if unknown := set(only) - set(map(_name, kinds)):
                there_are = ", ".join(map(_name, kinds))
                raise ValueError(f"no trouble is called {min(unknown)!r}; there are {there_are}")
            return [kind for kind in kinds if _name(kind) in only]
        return [kind for kind in kinds if self.chance.random() < KIND_RATE] or kinds

    async def run(self) -> None:
        """Inject faults until cancelled."""
        while self._kinds:
            await asyncio.sleep(self.chance.expovariate(1.0) * self._pause_s)
            if len(self._under_way) < AT_ONCE_MAX and not self._power.wants_calm:
                self._begin(self.chance.choice(self._kinds))

    def _begin(self, kind: Callable[[], Coroutine[Any, Any, None]]) -> None:
        name = _name(kind)
        self.count[name] = self.count.get(name, 0) + 1
        task = asyncio.create_task(kind(), name=name)
        self._under_way[task] = None
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._outages.fleet.troubles.append(f"{task.get_name()}: {error!r}")

    async def heal(self) -> None:
        """End all faults: every machine runs, every connection works, every disk works."""
        self.world.trace.add("nemesis", "heals everything")
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.world.network.heal()
        self._outages.heal()

    # Faults of clients and of the whole network.

    async def _kill_client(self) -> None:
        hosts = [host for host in self._clients if host not in self.spared]
        if hosts and self.world.machine(host := self.chance.choice(hosts)).is_up:
            self.world.crash(host)
            self._restart_client(host)

    async def _cut_client(self) -> None:
        host = self.chance.choice(self._clients)
        nodes = list(self._outages.fleet.hosts.values())
        for node in self.chance.sample(nodes, self.chance.randint(1, len(nodes))):
            one, other = self.chance.choice(((host, node), (node, host)))
            self.world.network.partition(one, other, one_way=self.chance.random() < 0.5)
        await asyncio.sleep(self.chance.expovariate(1.0) * 3.0)
        for node in nodes:
            self.world.network.heal(host, node)

    async def _change_weather(self) -> None:
        self.world.network.weather = drawn(self.chance, SPLIT_RATES)


def _name(kind: Callable[..., object]) -> str:
    return getattr(kind, "__name__", "").strip("_")
