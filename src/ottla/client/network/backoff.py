"""Retries with growing, slightly random pauses, until a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from ottla.client.errors import ConnectionLost, NoBrokerReachable, RequestTimedOut, Unreachable
from ottla.protocol.errors import KafkaError
from ottla.runtime.runtime import Runtime

T = TypeVar("T")

PAUSE_FIRST_MS = 50
PAUSE_MAX_MS = 1_000
JITTER = 0.2


class Pauses:
    """Pauses that double up to a limit and vary by up to a fifth, so that clients that failed
    together do not return together."""

    __slots__ = ("_first_s", "_max_s", "failures")

    def __init__(self, first_ms: float = PAUSE_FIRST_MS, max_ms: float = PAUSE_MAX_MS) -> None:
        self._first_s = min(first_ms, max_ms) / 1000
        self._max_s = max_ms / 1000
        self.failures = 0

    def next_s(self, random: Random) -> float:
        pause_s = min(self._first_s * 2.0 ** min(self.failures, 30), self._max_s)
        self.failures += 1
        return pause_s * (1 + JITTER * (2 * random.random() - 1))

    def reset(self) -> None:
        self.failures = 0


class Backoff:
    """The pauses of one operation; `pause` returns whether another attempt is due."""

    def __init__(self, runtime: Runtime, within_ms: int, pauses: Pauses | None = None) -> None:
        self._runtime = runtime
        self._deadline = runtime.clock.now() + within_ms / 1000
        self._pauses = pauses or Pauses()

    async def pause(self) -> bool:
        """Wait for the next pause. Return False at once if it would pass the deadline."""
        pause_s = self._pauses.next_s(self._runtime.random)
        if self._runtime.clock.now() + pause_s > self._deadline:
            return False
        await asyncio.sleep(pause_s)
        return True


def may_pass(error: BaseException, *, resend: bool = True) -> bool:
    """Return whether the same attempt may succeed later.

    Without `resend`, return True only if the broker has certainly not done the work.
    """
    if isinstance(error, KafkaError):
        return error.code.retriable
    if isinstance(error, NoBrokerReachable):
        return any(map(may_pass, error.failures))
    if isinstance(error, Unreachable):
        return True
    return resend and isinstance(error, (ConnectionLost, RequestTimedOut))


async def retrying(
    runtime: Runtime,
    attempt: Callable[[], Awaitable[T]],
    *,
    within_ms: int,
    resend: bool = True,
    pauses: Pauses | None = None,
) -> T:
    """Return the first result of `attempt`, which is retried after temporary errors."""
    backoff = Backoff(runtime, within_ms, pauses)
    while True:
        try:
            return await attempt()
        except Exception as error:
            if not may_pass(error, resend=resend) or not await backoff.pause():
                raise
