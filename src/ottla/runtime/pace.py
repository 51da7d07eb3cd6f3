"""Runs long work in short slices, so that other work on the event loop runs in between.

Work is a generator that yields wherever it may be interrupted, and returns its result.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.logs import get_logger
from ottla.runtime.burst_memory import BURST
from ottla.runtime.collector import collector_paused

if TYPE_CHECKING:
    from ottla.runtime.runtime import Runtime

T = TypeVar("T")

log = get_logger("ottla.runtime")

SLICE_S: Final = 0.003
STEPS_BETWEEN_CLOCK_LOOKS: Final = 64
"""Steps take about a microsecond each."""


class Pace:
    """Tells when work has blocked the loop for long enough."""

    __slots__ = ("_clock", "_end_s")

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self._end_s = self._clock.now() + SLICE_S

    async def rest(self) -> None:
        """Yield to the loop, if this slice has been long enough."""
        if self._clock.now() >= self._end_s:
            await asyncio.sleep(0)
            self._end_s = self._clock.now() + SLICE_S


async def in_slices(
    runtime: Runtime, steps: Generator[None, None, T], looks: int = STEPS_BETWEEN_CLOCK_LOOKS
) -> T:
    """Return the result of the work. `looks`: how many steps to take between two looks at the
    clock."""
    pace = Pace(runtime)
    try:
        while True:
            with BURST:
                for _ in range(looks):
                    next(steps)
            await pace.rest()
    except StopIteration as done:
        result: T = done.value
        return result


async def many_in_slices(runtime: Runtime, steps: Generator[None, None, T]) -> T:
    """As `in_slices`, for work that makes many objects: garbage collection must not scan them all
    meanwhile, which would block the loop, too."""
    with collector_paused():
        return await in_slices(runtime, steps)


def at_once(steps: Generator[None, None, T]) -> T:
    """Return the result of work that is known to be short."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


Work = Iterator[object]


class Backlog:
    """Work that must be done in order: at once if it is short, else in slices, and then later work
    waits for it."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime = runtime
        self._name = name
        self._waiting: deque[tuple[Work, asyncio.Future[None]]] = deque()

    def take(self, work: Work) -> asyncio.Future[None] | None:
        """Run the work. Returns None if it is done already, else a future that resolves when it is.
        A failure is raised here, or only logged if it comes later."""
        if not self._waiting and self._is_done(work):
            return None
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, done))
        if len(self._waiting) == 1:
            self._runtime.spawn(self._work_off(), name=self._name)
        return done

    async def finished(self) -> None:
        """Return when no work is left."""
        while self._waiting:
            await asyncio.wait([self._waiting[-1][1]])

    def _is_done(self, work: Work) -> bool:
        """Run one slice of the work; True if it is done."""
        now = self._runtime.clock.now
        end_s = now() + SLICE_S
        return all(now() < end_s for _ in work)

    async def _work_off(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)
            work, done = self._waiting[0]
            try:
                if not self._is_done(work):
                    continue
            except Exception:
                log.exception("%s failed", self._name)
            self._waiting.popleft()
            if not done.done():
                done.set_result(None)
