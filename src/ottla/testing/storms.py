"""Runs the nemesis of the cluster's own simulation against a user's cluster, and ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from ottla.sim.cluster.fleet import Fleet
from ottla.sim.cluster.nemesis import Nemesis, Storm
from ottla.sim.world import World
from ottla.testing.programs import Program


class Storms:
    def __init__(
        self, world: World, fleet: Fleet, app: str, programs: Mapping[str, Program]
    ) -> None:
        self._world = world
        self._fleet = fleet
        self._programs = programs
        self._hosts = [app]
        self._spared = {app}
        self._chance = world.chance("programs")
        self._count = 0
        self._nemesis: Nemesis | None = None
        self._trouble: asyncio.Task[Any] | None = None

    def join(self, program: Program) -> None:
        """Add a machine that storms may affect."""
        self._hosts.append(program.host)
        if not program.supervised:
            self._spared.add(program.host)

    @property
    def is_on(self) -> bool:
        return self._trouble is not None

    def begin(self, kinds: Collection[str] | None) -> None:
        if self._trouble is not None:
            raise RuntimeError("a storm is on: end it by `await cluster.calm()`")
        self._nemesis = self._made(kinds)
        self._trouble = self._world.loop.create_task(self._nemesis.run(), name="storm")

    def _made(self, kinds: Collection[str] | None) -> Nemesis:
        self._count += 1
        stream = f"nemesis {self._count}"
        storm = Storm(kinds=None if kinds is None else tuple(kinds), stream=stream)
        nemesis = Nemesis(self._world, self._fleet, self._hosts, self._restart, storm)
        nemesis.spared = self._spared
        return nemesis

    def _restart(self, host: str) -> None:
        self._programs[host].start_soon(self._chance)

    async def end(self) -> None:
        """Repair and start everything, also what was not broken by a storm."""
        if self._trouble is not None:
            self._trouble.cancel()
            self._trouble = None
        await (self._nemesis or self._made(None)).heal()
        for program in self._programs.values():
            program.start_if_down()
