"""When to try again: after growing, slightly random pauses, until a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.client.errors import ConnectionLost, RequestTimedOut, Unreachable
from ottla.protocol.errors import KafkaError
from ottla.runtime.runtime import Runtime

T = TypeVar("T")

PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 1.0
JITTER = 0.2


class Backoff:
    """Pauses of one operation; `pause` says whether another attempt is due."""

    def __init__(self, runtime: Runtime, within_ms: int) -> None:
        self._runtime = runtime
        self._deadline = runtime.clock.now() + within_ms / 1000
        self._pause_s = PAUSE_FIRST_S

    async def pause(self) -> bool:
        """Wait a little; False, at once, when the wait would pass the deadline."""
        pause_s = self._pause_s * (1 + JITTER * (2 * self._runtime.random.random() - 1))
        self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)
        if self._runtime.clock.now() + pause_s > self._deadline:
            return False
        await asyncio.sleep(pause_s)
        return True


def may_pass(error: BaseException, *, resend: bool = True) -> bool:
    """Whether the same attempt may succeed later.

    Without `resend` only errors count after which the broker has surely not done the work.
    """
    if isinstance(error, KafkaError):
        return error.code.retriable
    return resend and isinstance(error, (ConnectionLost, RequestTimedOut, Unreachable))


async def retrying(
    runtime: Runtime, attempt: Callable[[], Awaitable[T]], *, within_ms: int, resend: bool = True
) -> T:
    """The first result of `attempt`, tried again while its errors may pass."""
    backoff = Backoff(runtime, within_ms)
    while True:
        try:
            return await attempt()
        except Exception as error:
            if not may_pass(error, resend=resend) or not await backoff.pause():
                raise
