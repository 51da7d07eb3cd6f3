"""Parts of an application in a simulation, each on its own machine, over all their restarts."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.client.errors import ClientError
from ottla.protocol.errors import KafkaError
from ottla.sim.process import Process, ProcessDied
from ottla.sim.world import World
from ottla.testing.nodes import NodeDown

T = TypeVar("T")

TROUBLES = (ClientError, KafkaError, TimeoutError, OSError)
"""The errors that a failing cluster causes in a program: a supervisor starts it again."""

RESTART_S = 1.0
REBOOT_S_MAX = 3.0
STOP_S_MAX = 60.0


def begun(part: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> Coroutine[Any, Any, T]:
    made = part(*args)
    if not asyncio.iscoroutine(made):
        raise TypeError(f"what is simulated is an async function, and {part!r} gave {made!r}")
    return made


class Program:
    def __init__(
        self,
        world: World,
        host: str,
        make: Callable[[], Coroutine[Any, Any, Any]],
        *,
        supervised: bool,
        failed: Callable[[BaseException], None],
    ) -> None:
        self.host = host
        self.supervised = supervised
        self.lives = 0
        self.outcome: asyncio.Future[Any] = world.loop.create_future()
        """The program's result, from the run that returns it."""
        self.restarting = 0
        """Number of pending restarts."""
        self._world = world
        self._make = make
        self._failed = failed
        self._life: asyncio.Future[Any] | None = None
        self._task: asyncio.Task[Any] | None = None
        # Without a waiter, its error must not count as unhandled.
        self.outcome.add_done_callback(lambda done: done.cancelled() or done.exception())

    @property
    def process(self) -> Process | None:
        """The process of the program's current run."""
        runtime = self._world.machine(self.host).runtime
        return runtime.process if runtime is not None and runtime.process.alive else None

    def start(self) -> None:
        if self.process is not None:
            raise NodeDown(f"{self.host} is running: stop or kill it before starting it")
        self.lives += 1
        self._life = self._world.boot(self.host).run(self._live(), name=self.host)
        self._life.add_done_callback(self._ended, context=contextvars.Context())

    async def _live(self) -> Any:
        self._task = asyncio.current_task()
        return await self._make()

    def _ended(self, done: asyncio.Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ProcessDied):
            return
        self.kill()  # ends the tasks that it left behind
        if done.cancelled():
            return  # it was stopped
        if error is None:
            if not self.outcome.done():
                self.outcome.set_result(done.result())
        elif self.supervised and _is_trouble(error):
            self._world.trace.add(self.host, f"failed: {error!r}")
            self.start_later(RESTART_S)
        else:
            self._failed(error)

    def kill(self) -> None:
        self._world.crash(self.host)

    async def stop(self) -> None:
        """Stop as Ctrl-C does: cancel the main task, which may clean up."""
        if self.process is None:
            raise NodeDown(f"{self.host} is not running")
        if self._task is not None and self._life is not None:
            self._task.cancel()
            await asyncio.wait([self._life], timeout=STOP_S_MAX)
        self.kill()

    def start_later(self, seconds: float) -> None:
        self.restarting += 1
        self._world.loop.call_later(seconds, self._start_if_down, context=contextvars.Context())

    def start_soon(self, chance: random.Random) -> None:
        """Start it a while after a storm has killed it."""
        self.start_later(chance.random() * REBOOT_S_MAX)

    def _start_if_down(self) -> None:
        self.restarting -= 1
        self.start_if_down()

    def start_if_down(self) -> None:
        if self.process is None and not self.outcome.done():
            self.start()


def _is_trouble(error: BaseException) -> bool:
    """True for such an error, and for a group that contains only such errors."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(TROUBLES)[1] is None
    return isinstance(error, TROUBLES)
