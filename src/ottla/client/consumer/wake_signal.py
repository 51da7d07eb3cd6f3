"""A signal that wakes one waiting call from callbacks."""

from __future__ import annotations

import asyncio

from ottla.runtime.runtime import Runtime


class WakeSignal:
    """If `set` comes before the wait, the wait ends at once. Waiting creates no task."""

    __slots__ = ("_is_set", "_runtime", "_waiter")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._is_set = True
        self._end_wait()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for `set`, at most this long. Clear it, and return whether it was set."""
        if not self._is_set and timeout_s > 0:
            self._waiter = asyncio.get_running_loop().create_future()
            timer = self._runtime.call_later(timeout_s, self._end_wait)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        was_set, self._is_set = self._is_set, False
        return was_set

    def _end_wait(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
