"""Limits the bytes of records between `send` and their outcome: `buffer_memory`."""

from __future__ import annotations

import asyncio
from collections import deque

from ottla.client.errors import BufferExhausted
from ottla.runtime.clock import Clock


class BufferMemory:
    """Callers without room wait in line, first come first served."""

    __slots__ = ("_clock", "_line", "exhausted_count", "free", "limit", "waited_s", "waiting")

    def __init__(self, limit: int, clock: Clock) -> None:
        self.limit = limit
        self.free = limit
        self.waiting = 0
        """How many callers wait in line."""
        self.waited_s = 0.0
        self.exhausted_count = 0
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._clock = clock

    def release(self, size: int) -> None:
        self.free += size
        while self._line and (self._line[0][1].done() or self._line[0][0] <= self.free):
            wanted, turn = self._line.popleft()
            if not turn.done():
                self.free -= wanted
                turn.set_result(None)

    async def reserve(self, size: int, within_ms: float) -> None:
        """Return with `size` bytes taken. Raises `BufferExhausted` if that takes too long."""
        if within_ms <= 0:
            self.exhausted_count += 1
            raise BufferExhausted(size, self.limit, 0)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((size, turn))
        self.waiting += 1
        began = self._clock.now()
        try:
            async with asyncio.timeout(within_ms / 1000):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.release(size)  # it was granted while this task was being cancelled
            if not isinstance(error, TimeoutError):
                raise
            self.exhausted_count += 1
            raise BufferExhausted(size, self.limit, round(within_ms)) from None
        finally:
            self.waiting -= 1
            self.waited_s += self._clock.now() - began

    def fail_all(self, error: Exception) -> None:
        """Fail all callers that wait in line."""
        for _, turn in self._line:
            if not turn.done():
                turn.set_exception(error)
        self._line.clear()
