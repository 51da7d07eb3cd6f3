"""`Runtime` for one process on a simulated machine."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from ottla.logs import get_logger
from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk
from ottla.runtime.network import Network
from ottla.runtime.runtime import Timer
from ottla.runtime.worker import Worker
from ottla.sim.loop import SimLoop
from ottla.sim.process import Process, ProcessDied

log = get_logger("ottla.runtime")

T = TypeVar("T")


class SimRuntime:
    def __init__(
        self,
        loop: SimLoop,
        process: Process,
        clock: Clock,
        disk: Disk,
        network: Network,
        seeded: random.Random,
    ) -> None:
        self.loop = loop
        self.process = process
        self.clock: Clock = clock
        self.disk: Disk = disk
        self.network: Network = network
        self.random = seeded
        self.open_files_max = 1 << 20
        self.failures: list[str] = []
        """Background tasks that failed: a checker looks here first."""
        self._tasks: dict[asyncio.Task[object], None] = {}

    def twin(self) -> SimRuntime:
        """Return a runtime of the same machine for another program, with its own tasks to close."""
        twin = SimRuntime(self.loop, self.process, self.clock, self.disk, self.network, self.random)
        twin.failures = self.failures
        return twin

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        self.process.check_alive()
        return self.loop.call_later(delay_s, callback, *args, context=self.process.context)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.process.check_alive()
        self.loop.call_soon(callback, *args, context=self.process.context)

    def in_thread(self, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        self.process.check_alive()
        return self.process.context.copy().run(self.loop.in_thread, function, *args)

    async def start_worker(self, module: str) -> Worker | None:
        """Simulated machines have one process each."""
        return None

    def spawn(self, coroutine: Coroutine[Any, Any, object], *, name: str) -> None:
        if not self.process.alive:
            coroutine.close()
        self.process.check_alive()
        task = self._create(coroutine, name)
        self._tasks[task] = None
        task.add_done_callback(self._finished, context=self.process.context)

    def _finished(self, task: asyncio.Task[object]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(f"background task {task.get_name()} failed: {error!r}")
            log.error("background task %s failed", task.get_name(), exc_info=error)

    async def close(self) -> None:
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def run(self, coroutine: Coroutine[Any, Any, T], *, name: str = "main") -> asyncio.Future[T]:
        """Run it in this process. The returned future raises `ProcessDied` if the process dies."""
        task = self._create(coroutine, name)
        outcome: asyncio.Future[T] = self.loop.create_future()
        # If nobody awaits the future, the death of the process is not an unhandled error.
        outcome.add_done_callback(lambda done: done.cancelled() or done.exception())

        def copy(done: asyncio.Task[T]) -> None:
            if outcome.done():
                return
            if done.cancelled():
                outcome.cancel()
            elif (error := done.exception()) is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(done.result())

        def died() -> None:
            if not outcome.done():
                outcome.set_exception(ProcessDied(f"{self.process} died during {name}"))
                outcome.exception()  # mark as retrieved: the world may end before anybody awaits it

        task.add_done_callback(copy)
        self.process.at_death.append(died)
        return outcome

    def _create(self, coroutine: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        return self.loop.create_task(coroutine, name=name, context=self.process.context.copy())
