"""The machines of a simulated cluster: its nodes by id, the parts of the application by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ottla.node import Node
from ottla.sim.cluster.fleet import Fleet
from ottla.sim.process import Process
from ottla.sim.world import World
from ottla.testing.nodes import NodeDown
from ottla.testing.programs import Program

APP = "app"
"""The machine of the application itself. It is never killed, because that would end the test."""


class Machines:
    def __init__(self, world: World, fleet: Fleet, programs: Mapping[str, Program]) -> None:
        self._world = world
        self._fleet = fleet
        self._programs = programs

    @property
    def own_hosts(self) -> tuple[str, ...]:
        """The application's machines."""
        return (APP, *self._programs)

    @property
    def hosts(self) -> tuple[str, ...]:
        return (*self._fleet.hosts.values(), *self.own_hosts)

    def state(self, host: str) -> str:
        """Return whether a machine is running, paused or stopped."""
        found = self.alive([host])
        return "stopped" if not found else "paused" if found[0].paused else "running"

    def alive(self, hosts: Iterable[str]) -> list[Process]:
        runtimes = [self._world.machine(host).runtime for host in hosts]
        return [one.process for one in runtimes if one is not None and one.process.alive]

    def serving(self) -> dict[int, Node]:
        """Return the nodes that run and have started, by id."""
        return {
            number: node
            for number, node in self._fleet.running()
            if number in self._fleet.serving and self.state(self._fleet.hosts[number]) == "running"
        }

    def what_is_starting(self, nodes: Collection[int]) -> str | None:
        late = [str(one) for one in nodes if one not in self._fleet.serving]
        return f"still starting: node {', '.join(late)}" if late else None

    # Lookups by what the test calls a machine; each raises for one that does not exist

    def check_node(self, number: int) -> None:
        if number not in self._fleet.hosts:
            raise ValueError(f"there is no node {number}: nodes are {sorted(self._fleet.hosts)}")

    def program(self, name: str) -> Program:
        if name == APP:
            raise ValueError("the application itself goes on: run parts of it by cluster.run()")
        if name not in self._programs:
            raise ValueError(f"there is no machine {name!r}, only {sorted(self._programs)}")
        return self._programs[name]

    def host(self, machine: int | str) -> str:
        if isinstance(machine, int):
            self.check_node(machine)
            return self._fleet.hosts[machine]
        return APP if machine == APP else self.program(machine).host

    def process(self, machine: int | str) -> Process:
        if isinstance(machine, str):
            self.program(machine)
        found = self.alive([self.host(machine)])
        if not found:
            name = f"node {machine}" if isinstance(machine, int) else machine
            raise NodeDown(f"{name} is not running")
        return found[0]
