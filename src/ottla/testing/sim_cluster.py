"""A cluster inside a simulation, as the application under test sees it.

The verbs are those of `async_cluster`, and those that only a simulated world has. Whatever they do
is done by the world, not by the machine whose code asks for it: it goes on if that machine dies.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ottla.node import Node
from ottla.sim.cluster.fleet import Fleet
from ottla.sim.cluster.shape import CLIENT_PORT, DATA_DIR, SPLIT_RATES, NodeShape
from ottla.sim.process import Process
from ottla.sim.weather import Weather, drawn
from ottla.sim.world import World
from ottla.testing import looking
from ottla.testing.group import as_texts
from ottla.testing.looking import NotReady
from ottla.testing.nodes import NodeDown, NodeView
from ottla.testing.programs import Program, begun
from ottla.testing.sim_layout import SimLayout
from ottla.testing.storms import Storms

T = TypeVar("T")

APP = "app"
"""The machine of the application itself: it is not killed, for then the test would be over."""

READY_TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.05
WEATHER = tuple(Weather.__dataclass_fields__)
OPERATIONS = ("read", "write", "sync", "name")


class SimulatedCluster:
    """Made by `simulate()`. Nodes are named by their ids, 1, 2, 3, ..., other machines by name."""

    def __init__(self, world: World, layout: SimLayout, fail: Callable[[BaseException], None]):
        self.random: random.Random = world.chance("application")
        """From the seed, for whatever the application draws."""
        self._world = world
        self._layout = layout
        self._fail = fail
        self._fleet = Fleet(world, layout)
        self._programs: dict[str, Program] = {}
        self._asked: dict[asyncio.Task[Any], None] = {}
        """What the application waits for of the world."""
        world.network.weather = self._calm_weather = drawn(world.random, SPLIT_RATES)
        self._storms = Storms(world, self._fleet, APP, self._programs)

    # --- looking --------------------------------------------------------------------------------

    @property
    def seed(self) -> int:
        return self._world.seed

    @property
    def bootstrap_servers(self) -> str:
        """Of all nodes, also of those that are down: clients know how to pass over them."""
        return ",".join(node.address for node in self.nodes.values())

    @property
    def nodes(self) -> dict[int, NodeView]:
        return {
            number: NodeView(number, f"{host}:{CLIENT_PORT}", DATA_DIR, self._state(host))
            for number, host in self._fleet.hosts.items()
        }

    @property
    def machines(self) -> dict[str, str]:
        """Those of the application, by name: running, paused or stopped."""
        return {host: self._state(host) for host in (APP, *self._programs)}

    @property
    def controller(self) -> int | None:
        """The node whose controller is active, as far as the others know."""
        return looking.controller(self._running())

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        return looking.leader_of(self._running(), topic, partition)

    @property
    def digest(self) -> str:
        """Of everything that happened so far: equal in two runs exactly when they were alike."""
        return self._world.trace.digest()

    # --- life and death -------------------------------------------------------------------------

    async def kill(self, machine: int | str) -> None:
        """As `kill -9`: no goodbye, no flush, no line of its code runs any more."""
        self._end(machine, power_loss=False)

    async def lose_power(self, *nodes: int) -> None:
        """All at once: what they had not synced is lost, torn, or kept in part."""
        for node in nodes:
            self._node(node)
        for node in nodes:
            self._end(node, power_loss=True)

    def _end(self, machine: int | str, *, power_loss: bool) -> None:
        if isinstance(machine, int):
            self._node(machine)
            self._detached(lambda: self._fleet.kill(machine, power_loss=power_loss))
        else:
            self._detached(self._program(machine).kill)

    async def stop(self, machine: int | str) -> None:
        """As Ctrl-C: leaders move first; a program's task is cancelled."""
        self.resume(machine)
        if isinstance(machine, int):
            await self._asking(self._fleet.stop(machine))
        else:
            await self._asking(self._program(machine).stop())

    async def start(self, *machines: int | str) -> None:
        """After either. Returns when the nodes serve clients, which takes a majority: if that is
        down, start several at once."""
        starts = [self._starter(machine) for machine in machines]
        for start in starts:
            self._detached(start)
        nodes = [machine for machine in machines if isinstance(machine, int)]
        await self._until(lambda: self._what_is_starting(nodes), READY_TIMEOUT_S)

    def _starter(self, machine: int | str) -> Callable[[], None]:
        if isinstance(machine, str):
            return self._program(machine).start
        self._node(machine)
        if self._fleet.is_up(machine):
            raise NodeDown(f"node {machine} is running: stop or kill it before starting it")
        return lambda: self._fleet.start(machine)

    def _what_is_starting(self, nodes: Collection[int]) -> str | None:
        late = [str(one) for one in nodes if one not in self._fleet.serving]
        return f"still starting: node {', '.join(late)}" if late else None

    async def restart(self, machine: int | str) -> None:
        await self.stop(machine)
        await self.start(machine)

    def pause(self, machine: int | str) -> None:
        """As SIGSTOP: connections stay open, and nothing answers."""
        self._running_process(machine).paused = True

    def resume(self, machine: int | str) -> None:
        self._world.loop.resume(self._running_process(machine))

    async def add_node(self, settings: Mapping[str, object] | None = None) -> int:
        """One more broker, which is no controller; its id."""
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
        """Run `part(*args)` on a machine of its own; await what comes back for what it returns.

        It can be killed, stopped, paused, cut off and started again, from its beginning. If it is
        supervised, an error of a client's, a timeout or an `OSError` ends only this life of it, and
        storms may kill it too. Any other error ends the simulation.
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
        """Nothing passes from one machine to the other, nor back unless `one_way`."""
        self._world.network.partition(self._host(one), self._host(other), one_way=one_way)

    def isolate(self, machine: int | str) -> None:
        """Cut it off from every other one."""
        host = self._host(machine)
        for other in (*self._fleet.hosts.values(), *self.machines):
            if other != host:
                self._world.network.partition(host, other)

    def heal(self, one: int | str | None = None, other: int | str | None = None) -> None:
        """The way between two machines, all ways of one, or all there are."""
        if one is None:
            self._world.network.heal()
            return
        host = self._host(one)
        others = (*self._fleet.hosts.values(), *self.machines)
        for another in others if other is None else (self._host(other),):
            self._world.network.heal(host, another)

    def clog(self, machine: int | str, seconds: float) -> None:
        """Nothing gets to it or from it for a while; then everything does."""
        self._world.network.pause(self._host(machine), seconds)

    def reset_connections(self, machine: int | str) -> None:
        self._world.network.cut_connections(self._host(machine))

    def set_network(self, **changes: float) -> None:
        """`latency_s`, `spike_rate`, `spike_s`, `bandwidth_bytes_s`, `refuse_rate`; by the seed, if
        none is given."""
        if unknown := changes.keys() - set(WEATHER):
            raise ValueError(f"a network has no {min(unknown)!r}, but {', '.join(WEATHER)}")
        weather = self._world.network.weather if changes else self._calm_weather
        self._world.network.weather = replace(weather, **changes)  # type: ignore[arg-type]

    def break_disk(self, node: int, *operations: str) -> None:
        """Let `read`, `write`, `sync`, `name` or all of them fail; a broker gives up then."""
        if unknown := set(operations) - set(OPERATIONS):
            raise ValueError(f"a disk has no {min(unknown)!r}, but {', '.join(OPERATIONS)}")
        self._node(node)
        faults = self._world.machine(self._fleet.hosts[node]).faults
        faults.fail(DATA_DIR, *operations)
        faults.struck = True

    def mend_disk(self, node: int) -> None:
        self._node(node)
        self._fleet.check()
        self._world.machine(self._fleet.hosts[node]).faults.heal()

    def jump_clock(self, machine: int | str, seconds: float) -> None:
        """Set its wall clock forward or back, as a time daemon may."""
        self._world.machine(self._host(machine)).clock.jump(int(seconds * 1000))

    # --- storms ---------------------------------------------------------------------------------

    def storm(self, kinds: Collection[str] | None = None) -> None:
        """Begin with troubles of all kinds, or of these, within what a cluster survives."""
        self._detached(lambda: self._storms.begin(kinds))

    async def calm(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """End the storm, heal everything, start whatever is down, and wait until it is well."""
        await self._asking(self._storms.end())
        self.set_network()
        for process in self._processes():
            self._world.loop.resume(process)
        await self._until(lambda: self._what_is_starting(self._fleet.hosts), timeout_s)
        await self.wait_in_sync(timeout_s)

    # --- waiting --------------------------------------------------------------------------------

    async def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Until every node that runs knows every other one as usable."""
        await self._until(lambda: looking.not_ready(self._running()), timeout_s)

    async def wait_in_sync(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Until every partition has a leader and all its copies on running nodes are in sync."""
        await self._until(lambda: looking.not_in_sync(self._running()), timeout_s)

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
        """Raise what went wrong in brokers, or anywhere without being handled."""
        self._fleet.check()

    def is_waited_for(self) -> bool:
        """Whether the world itself still has something to do for the application."""
        programs = self._programs.values()
        in_storm = self._storms.is_on and any(one.process is not None for one in programs)
        return in_storm or bool(self._asked) or any(one.restarting for one in programs)

    def own_processes(self) -> list[Process]:
        """Of the application."""
        return self._alive((APP, *self._programs))

    # --- machines -------------------------------------------------------------------------------

    def _processes(self) -> list[Process]:
        return self._alive((*self._fleet.hosts.values(), *self._programs))

    def _alive(self, hosts: Collection[str]) -> list[Process]:
        runtimes = [self._world.machine(host).runtime for host in hosts]
        return [one.process for one in runtimes if one is not None and one.process.alive]

    def _running(self) -> dict[int, Node]:
        return {
            number: node
            for number, node in self._fleet.running()
            if number in self._fleet.serving and self._state(self._fleet.hosts[number]) == "running"
        }

    def _state(self, host: str) -> str:
        found = self._alive([host])
        return "stopped" if not found else "paused" if found[0].paused else "running"

    def _node(self, number: int) -> None:
        if number not in self._fleet.hosts:
            raise ValueError(f"there is no node {number}: nodes are {sorted(self._fleet.hosts)}")

    def _program(self, name: str) -> Program:
        if name == APP:
            raise ValueError("the application itself goes on: run parts of it by cluster.run()")
        if name not in self._programs:
            raise ValueError(f"there is no machine {name!r}, only {sorted(self._programs)}")
        return self._programs[name]

    def _host(self, machine: int | str) -> str:
        if isinstance(machine, int):
            self._node(machine)
            return self._fleet.hosts[machine]
        return APP if machine == APP else self._program(machine).host

    def _running_process(self, machine: int | str) -> Process:
        if isinstance(machine, str):
            self._program(machine)
        found = self._alive([self._host(machine)])
        if not found:
            name = f"node {machine}" if isinstance(machine, int) else machine
            raise NodeDown(f"{name} is not running")
        return found[0]

    # --- as the world ---------------------------------------------------------------------------

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
            task.exception()  # whoever asked may be dead
