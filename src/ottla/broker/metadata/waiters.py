"""Waits until the image has reached an offset."""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count


class Waiters:
    def __init__(self) -> None:
        self._heap: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()

    def until(self, offset: int) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._heap, (offset, next(self._numbers), waiter))
        return waiter

    def reached(self, offset: int) -> None:
        while self._heap and self._heap[0][0] <= offset:
            waiter = heappop(self._heap)[2]
            if not waiter.done():
                waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        waiting, self._heap = self._heap, []
        for _, _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)
