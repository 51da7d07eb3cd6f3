"""The whole of a simulation: one loop, one network, machines with disks, one seed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.sim.clock import SimClock
from ottla.sim.disk import Faults, Machinery, SimDisk
from ottla.sim.loop import SimLoop
from ottla.sim.network import Fabric, SimNetwork
from ottla.sim.process import Process
from ottla.sim.runtime import SimRuntime
from ottla.sim.trace import Trace
from ottla.sim.volume import Volume

T = TypeVar("T")


class Machine:
    """A named host: its volume and its clock outlive the processes that run on it."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.clock = SimClock(world.loop.time)
        self.volume = Volume(world.chance(f"disk of {name}"), self.clock.wall_ms)
        self.faults = Faults()
        self.locks: dict[str, Process] = {}
        self.boots = 0
        self.runtime: SimRuntime | None = None

    @property
    def is_up(self) -> bool:
        return self.runtime is not None and self.runtime.process.alive


class World:
    def __init__(
        self,
        seed: int,
        *,
        time_limit_s: float = 3600.0,
        tell: Callable[[str], object] | None = None,
    ) -> None:
        self.seed = seed
        self.random = self.chance("world")
        self.loop = SimLoop(self.chance("loop"), time_limit_s=time_limit_s)
        self.trace = Trace(self.loop.time, tell=tell)
        self.network = Fabric(self.loop, self.chance("network"), self.trace)
        self.machines: dict[str, Machine] = {}
        self._graveyard: list[asyncio.Task[Any]] = []

    def chance(self, purpose: str) -> random.Random:
        """Return a random stream for each purpose: one more draw here changes nothing there."""
        return random.Random(f"{self.seed}/{purpose}")

    def machine(self, host: str) -> Machine:
        if host not in self.machines:
            self.machines[host] = Machine(self, host)
        return self.machines[host]

    def boot(self, host: str) -> SimRuntime:
        """Start a process on the machine: the first one, or the next after a crash."""
        machine = self.machine(host)
        if machine.is_up:
            raise RuntimeError(f"{host} is running: crash it before it can be booted again")
        machine.boots += 1
        process = Process(host, machine.boots)
        process.crash = lambda: self.crash(host)
        machinery = Machinery(process, machine.volume, machine.faults, self.trace)
        machine.runtime = SimRuntime(
            self.loop,
            process,
            machine.clock,
            SimDisk(machinery, machine.locks),
            SimNetwork(self.network, process),
            self.chance(f"{host} boot {machine.boots}"),
        )
        process.new_runtime = machine.runtime.twin
        self.trace.add(host, f"boot {machine.boots}")
        self.network.power_on(host)
        return machine.runtime

    def crash(self, host: str, *, power_loss: bool = False) -> None:
        """End the machine's process now. Its page cache stays, unless power is lost."""
        machine = self.machine(host)
        self.trace.add(host, "loses power" if power_loss else "is killed")
        if machine.is_up:
            self._kill(machine, power_loss)
        if power_loss:
            machine.volume.power_loss()

    def _kill(self, machine: Machine, power_loss: bool) -> None:
        assert machine.runtime is not None
        process = machine.runtime.process
        # Keep the tasks: dropping their sockets would finalize them here and run cleanup code.
        self._graveyard += self.loop.unfinished(process)
        process.die()
        self.network.process_died(process, power_loss=power_loss)
        machine.volume.process_killed()

    def crash_within(self, host: str, operations: int, *, power_loss: bool = False) -> None:
        """Crash inside the disk operation that follows this many more writing operations."""
        machine = self.machine(host)
        assert machine.runtime is not None
        process = machine.runtime.process
        process.operations_until_crash = operations
        process.crash = lambda: self.crash(host, power_loss=power_loss)

    def pause(self, host: str, seconds: float) -> None:
        """Freeze a process: it does not run, while timers come due and network buffers fill."""
        runtime = self.machine(host).runtime
        assert runtime is not None
        process = runtime.process
        self.trace.add(host, f"frozen for {seconds:.3f} s")
        process.paused = True
        self.loop.call_later(seconds, self.loop.resume, process, context=self.network.context)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine to its end, then end all processes that are left."""
        # The garbage collector would run finalizers at moments that no seed controls.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self.loop.run_until_complete(main)
        finally:
            self._end()
            if collecting:
                gc.enable()

    def _end(self) -> None:
        for machine in self.machines.values():
            if machine.is_up and machine.runtime is not None:
                machine.runtime.process.die()
        for task in sorted(asyncio.all_tasks(self.loop), key=hash):
            _bury(task)
        self.loop.close()


def _bury(task: asyncio.Task[Any]) -> None:
    """Close a coroutine that will never run again, before a garbage collection warns about it."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    if isinstance(coroutine, Coroutine):
        with contextlib.suppress(BaseException):
            coroutine.close()
