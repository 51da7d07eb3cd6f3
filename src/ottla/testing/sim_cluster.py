"""A cluster inside a simulation, as the application under test sees it.

It has the methods of `async_cluster`, and those that only a simulation has. The simulated world
runs them, not the machine whose code calls them: they go on if that machine dies. The class has
many methods because it is all that a test holds: whatever can happen to a cluster is one call.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ottla.sim.cluster.fleet import Fleet
from ottla.sim.cluster.shape import CLIENT_PORT, DATA_DIR, SPLIT_RATES, NodeShape
from ottla.sim.process import Process
from ottla.sim.weather import Weather, drawn
from ottla.sim.world import World
from ottla.testing import cluster_state
from ottla.testing.cluster_state import NotReady
from ottla.testing.group import as_texts
from ottla.testing.nodes import NodeDown, NodeView
from ottla.testing.programs import Program, begun
from ottla.testing.sim_layout import SimLayout
from ottla.testing.sim_machines import APP, Machines
from ottla.testing.storms import Storms

T = TypeVar("T")

READY_TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.05
WEATHER = tuple(Weather.__dataclass_fields__)
OPERATIONS = ("read", "write", "sync", "name")


class SimulatedCluster:
    """Created by `simulate()`. Nodes are identified by their ids, 1, 2, 3, ..., other machines by
    name."""

    def __init__(self, world: World, layout: SimLayout, fail: Callable[[BaseException], None]):
        self.random: random.Random = world.chance("application")
        """Randomness from the seed, for the application."""
        self._world = world
        self._layout = layout
        self._fail = fail
        self._fleet = Fleet(world, layout)
        self._programs: dict[str, Program] = {}
        self._machines = Machines(world, self._fleet, self._programs)
        self._asked: dict[asyncio.Task[Any], None] = {}
        """Tasks of the simulated world that the application waits for."""
        world.network.weather = self._calm_weather = drawn(world.random, SPLIT_RATES)
        self._storms = Storms(world, self._fleet, APP, self._programs)

    # --- state ----------------------------------------------------------------------------------

    @property
    def seed(self) -> int:
        return self._world.seed

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, including those that are down: clients skip them."""
        return ",".join(node.address for node in self.nodes.values())

    @property
    def nodes(self) -> dict[int, NodeView]:
        return {
            number: NodeView(number, f"{host}:{CLIENT_PORT}", DATA_DIR, self._machines.state(host))
            for number, host in self._fleet.hosts.items()
        }

    @property
    def machines(self) -> dict[str, str]:
        """The application's machines by name: running, paused or stopped."""
        return {host: self._machines.state(host) for host in self._machines.own_hosts}

    @property
    def controller(self) -> int | None:
        """The active controller, as far as the other nodes know."""
        return cluster_state.controller(self._machines.serving())

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        return cluster_state.leader_of(self._machines.serving(), topic, partition)

    @property
    def digest(self) -> str:
        """A digest of everything that happened so far: it is equal only for identical runs."""
        return self._world.trace.digest()

    # --- start and end --------------------------------------------------------------------------

    async def kill(self, machine: int | str) -> None:
        """Kill as `kill -9` does: without shutdown or flush; none of its code runs any more."""
        self._end(machine, power_loss=False)

    async def lose_power(self, *nodes: int) -> None:
        """Cut the power of these nodes at once: unsynced data is lost, torn, or partly kept."""
        for node in nodes:
            self._machines.check_node(node)
        for node in nodes:
            self._end(node, power_loss=True)

    def _end(self, machine: int | str, *, power_loss: bool) -> None:
        if isinstance(machine, int):
            self._machines.check_node(machine)
            self._detached(lambda: self._fleet.kill(machine, power_loss=power_loss))
        else:
            self._detached(self._machines.program(machine).kill)

    async def stop(self, machine: int | str) -> None:
        """Stop as Ctrl-C does: a node moves its leaders first; a program's task is cancelled."""
        self.resume(machine)
        if isinstance(machine, int):
            await self._asking(self._fleet.stop(machine))
        else:
            await self._asking(self._machines.program(machine).stop())

    async def start(self, *machines: int | str) -> None:
        """Start machines after a kill or stop. Return when the nodes serve clients, which needs a
        majority: if that is down, start several at once."""
        starts = [self._starter(machine) for machine in machines]
        for start in starts:
            self._detached(start)
        nodes = [machine for machine in machines if isinstance(machine, int)]
        await self._until(lambda: self._machines.what_is_starting(nodes), READY_TIMEOUT_S)

    def _starter(self, machine: int | str) -> Callable[[], None]:
        if isinstance(machine, str):
            return self._machines.program(machine).start
        self._machines.check_node(machine)
        if self._fleet.is_up(machine):
            raise NodeDown(f"node {machine} is running: stop or kill it before starting it")
        return lambda: self._fleet.start(machine)

    async def restart(self, machine: int | str) -> None:
        await self.stop(machine)
        await self.start(machine)

    def pause(self, machine: int | str) -> None:
        """Freeze a machine as SIGSTOP does: connections stay open, but it does not answer."""
        self._machines.process(machine).paused = True

    def resume(self, machine: int | str) -> None:
        self._world.loop.resume(self._machines.process(machine))

    async def add_node(self, settings: Mapping[str, object] | None = None) -> int:
        """Add a broker that is no controller, and return its id."""
        if len(self._layout.nodes) == 1:
            raise ValueError("a single node cannot grow: begin with nodes=2 or more")
        number = max(self._fleet.hosts) + 1
        self._layout.by_node[number] = as_texts(settings or {})
        self._detached(lambda: self._fleet.add(NodeShape(number, is_controller=False)))
        await self.start(number)
        return number

    # --- parts of the application ---------------------------------------------------------------

    def run(
        self,
        part: Callable[..., Coroutine[Any, Any, T]],
        *args: Any,
        host: str,
        supervised: bool = True,
    ) -> asyncio.Future[T]:
        """Run `part(*args)` on its own machine. Await the returned future for its result.

        It can be killed, stopped, paused, disconnected and started again, from its beginning. If it
        is supervised, it is restarted after a client's error, a timeout or an `OSError`, and storms
        may kill it, too. Any other error ends the simulation.
        """
        if host in self._programs or host == APP or host in self._fleet.hosts.values():
            raise ValueError(f"a machine is called {host!r} already: each part has one of its own")
        program = Program(
            self._world,
            host,
            lambda: begun(part, *args),
            supervised=supervised,
            failed=self._fail,
        )
        self._programs[host] = program
        self._storms.join(program)
        self._detached(program.start)
        return program.outcome

    # --- network, disks, clocks -----------------------------------------------------------------

    def cut(self, one: int | str, other: int | str, *, one_way: bool = False) -> None:
        """Drop all traffic from one machine to the other, and back unless `one_way`."""
        self._world.network.partition(
            self._machines.host(one), self._machines.host(other), one_way=one_way
        )

    def isolate(self, machine: int | str) -> None:
        """Disconnect a machine from all others."""
        host = self._machines.host(machine)
        for other in self._machines.hosts:
            if other != host:
                self._world.network.partition(host, other)

    def heal(self, one: int | str | None = None, other: int | str | None = None) -> None:
        """Reconnect two machines, one machine with all others, or all machines."""
        if one is None:
            self._world.network.heal()
            return
        host = self._machines.host(one)
        for another in self._machines.hosts if other is None else (self._machines.host(other),):
            self._world.network.heal(host, another)

    def clog(self, machine: int | str, seconds: float) -> None:
        """Hold back all traffic to and from a machine for a while, then deliver it."""
        self._world.network.pause(self._machines.host(machine), seconds)

    def reset_connections(self, machine: int | str) -> None:
        self._world.network.cut_connections(self._machines.host(machine))

    def set_network(self, **changes: float) -> None:
        """Set `latency_s`, `spike_rate`, `spike_s`, `bandwidth_bytes_s`, `refuse_rate`; without
        arguments, return to the values drawn from the seed."""
        if unknown := changes.keys() - set(WEATHER):
            raise ValueError(f"a network has no {min(unknown)!r}, but {', '.join(WEATHER)}")
        weather = self._world.network.weather if changes else self._calm_weather
        self._world.network.weather = replace(weather, **changes)  # type: ignore[arg-type]

    def break_disk(self, node: int, *operations: str) -> None:
        """Make `read`, `write`, `sync`, `name` or all of them fail; the broker then gives up."""
        if unknown := set(operations) - set(OPERATIONS):
            raise ValueError(f"a disk has no {min(unknown)!r}, but {', '.join(OPERATIONS)}")
        self._machines.check_node(node)
        faults = self._world.machine(self._fleet.hosts[node]).faults
        faults.fail(DATA_DIR, *operations)
        faults.struck = True

    def mend_disk(self, node: int) -> None:
        self._machines.check_node(node)
        self._fleet.check()
        self._world.machine(self._fleet.hosts[node]).faults.heal()

    def jump_clock(self, machine: int | str, seconds: float) -> None:
        """Set a machine's wall clock forward or back, as a time daemon may."""
        self._world.machine(self._machines.host(machine)).clock.jump(int(seconds * 1000))

    # --- storms ---------------------------------------------------------------------------------

    def storm(self, kinds: Collection[str] | None = None) -> None:
        """Begin faults of all or the given kinds, within what a cluster survives."""
        self._detached(lambda: self._storms.begin(kinds))

    async def calm(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """End the storm, repair everything, start what is down, and wait until all is in sync."""
        await self._asking(self._storms.end())
        self.set_network()
        for process in self._machines.alive((*self._fleet.hosts.values(), *self._programs)):
            self._world.loop.resume(process)
        await self._until(lambda: self._machines.what_is_starting(self._fleet.hosts), timeout_s)
        await self.wait_in_sync(timeout_s)

    # --- waiting --------------------------------------------------------------------------------

    async def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every running node sees every other one as active."""
        await self._until(lambda: cluster_state.not_ready(self._machines.serving()), timeout_s)

    async def wait_in_sync(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until each partition has a leader, and its replicas on running nodes are in sync."""
        await self._until(lambda: cluster_state.not_in_sync(self._machines.serving()), timeout_s)

    async def _until(self, missing: Callable[[], str | None], timeout_s: float) -> None:
        until = self._world.loop.time() + timeout_s
        while (what := missing()) is not None:
            if self._world.loop.time() > until:
                raise NotReady(f"not within {timeout_s:g} s: {what}")
            self.check()
            await asyncio.sleep(LOOK_EVERY_S)

    # --- for the simulation itself --------------------------------------------------------------

    async def open(self) -> None:
        self._fleet.format()
        await self.start(*self._fleet.hosts)
        await self.wait_ready()

    def check(self) -> None:
        """Raise errors of brokers, and unhandled errors anywhere."""
        self._fleet.check()

    def is_waited_for(self) -> bool:
        """True if the simulated world still has work to do for the application."""
        programs = self._programs.values()
        in_storm = self._storms.is_on and any(one.process is not None for one in programs)
        return in_storm or bool(self._asked) or any(one.restarting for one in programs)

    def own_processes(self) -> list[Process]:
        """Return the processes of the application."""
        return self._machines.alive(self._machines.own_hosts)

    # --- work of the world ----------------------------------------------------------------------

    def _detached(self, act: Callable[[], T]) -> T:
        return contextvars.Context().run(act)

    async def _asking(self, work: Coroutine[Any, Any, T]) -> T:
        task = self._world.loop.create_task(work, context=contextvars.Context())
        self._asked[task] = None
        task.add_done_callback(self._answered, context=contextvars.Context())
        return await task

    def _answered(self, task: asyncio.Task[Any]) -> None:
        self._asked.pop(task, None)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the caller may be dead
