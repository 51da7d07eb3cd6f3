"""The open connections of a client: one per broker and purpose, opened when first needed.

Responses come in the order of requests, so requests that may wait long have their own connection: a
fetch must not delay a produce request, nor either of them a heartbeat. After a failed connection a
broker is not tried for a while, which grows with every failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from ottla.client.errors import Address, IllegalState
from ottla.client.network.backoff import Pauses
from ottla.client.network.silence import SilentAddresses
from ottla.network.connection import Connection
from ottla.runtime.runtime import Runtime, Timer

Purpose = Literal["main", "fetch", "coordinator"]
T = TypeVar("T")
Dial = Callable[[Address], Awaitable[Connection]]


class Pool:
    def __init__(
        self,
        runtime: Runtime,
        dial: Dial,
        *,
        reconnect_backoff_ms: int,
        reconnect_backoff_max_ms: int,
        idle_max_ms: int,
    ) -> None:
        self._runtime = runtime
        self._dial = dial
        self._backoff_ms = (reconnect_backoff_ms, reconnect_backoff_max_ms)
        self._idle_max_s = idle_max_ms / 1000
        self._open: dict[tuple[int, str], Connection] = {}
        self._dialing: dict[tuple[int, str], asyncio.Task[Connection]] = {}
        self._retry: dict[int, _Retry] = {}
        self._silent = SilentAddresses(runtime)
        self._sweeper: Timer | None = None
        self._closed = False

    def get(self, node_id: int, purpose: Purpose = "main") -> Connection | None:
        """Return the open connection, if there is one."""
        connection = self._open.get((node_id, purpose))
        if connection is None or connection.failure is not None:
            return None
        return connection

    def least_loaded(self) -> Connection | None:
        """Return the "main" connection that is least throttled, then with the fewest requests."""
        ready = [
            connection
            for (_, purpose), connection in self._open.items()
            if purpose == "main" and connection.failure is None
        ]
        now = self._runtime.clock.now()
        return min(
            ready, key=lambda one: (max(one.throttled_until, now), one.in_flight), default=None
        )

    def is_backing_off(self, node_id: int) -> bool:
        retry = self._retry.get(node_id)
        return retry is not None and self._runtime.clock.now() < retry.at

    async def connect(
        self, node_id: int, address: Address, purpose: Purpose = "main"
    ) -> Connection:
        """Return the open connection, or open one; concurrent callers share the attempt."""
        if (connection := self.get(node_id, purpose)) is not None:
            return connection
        if self._closed:
            raise IllegalState("this client is closed")
        key = (node_id, purpose)
        task = self._dialing.get(key)
        if task is None:
            task = asyncio.create_task(self._make(key, address), name=f"dial {node_id} {purpose}")
            self._dialing[key] = task
            task.add_done_callback(lambda done: self._dialed(key, done))
        return await shared(task)

    async def _make(self, key: tuple[int, str], address: Address) -> Connection:
        node_id = key[0]
        retry = self._retry.get(node_id)
        if retry is not None and (wait_s := retry.at - self._runtime.clock.now()) > 0:
            await asyncio.sleep(wait_s)
        try:
            with self._silent.watch(address):
                connection = await self._dial(address)
        except Exception:
            self._back_off(node_id)
            raise
        self._retry.pop(node_id, None)
        self._open[key] = connection
        self._sweep_later()
        return connection

    def _back_off(self, node_id: int) -> None:
        retry = self._retry.get(node_id)
        if retry is None:
            retry = self._retry[node_id] = _Retry(Pauses(*self._backoff_ms))
        retry.at = self._runtime.clock.now() + retry.pauses.next_s(self._runtime.random)

    def _dialed(self, key: tuple[int, str], task: asyncio.Task[Connection]) -> None:
        if self._dialing.get(key) is task:
            del self._dialing[key]
        if not task.cancelled():
            task.exception()  # marks it as retrieved: every caller may have given up

    def retire(self, node_id: int) -> None:
        """Close connections to a broker that has moved once their pending requests are answered."""
        self._retry.pop(node_id, None)
        for key in [key for key in self._open if key[0] == node_id]:
            self._open.pop(key).close_when_idle()

    def retire_all(self) -> None:
        """Close all connections in this way, because all known addresses may be wrong."""
        for node_id in {node_id for node_id, _ in self._open} | self._retry.keys():
            self.retire(node_id)

    def close(self) -> None:
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in list(self._dialing.values()):
            task.cancel()
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    # Idle connections

    def _sweep_later(self) -> None:
        if self._sweeper is None and self._idle_max_s > 0 and not self._closed:
            pause_s = self._idle_max_s / 4
            self._sweeper = self._runtime.call_later(pause_s, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        limit = self._runtime.clock.now() - self._idle_max_s
        for key, connection in list(self._open.items()):
            if connection.failure is None and not connection.is_idle_since(limit):
                continue
            del self._open[key]
            connection.close()
        if self._open:
            self._sweep_later()


async def shared(task: asyncio.Task[T]) -> T:
    """Wait for a shared task. A cancelled caller does not cancel it for the others."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if task.cancelled() and caller is not None and not caller.cancelling():
            raise IllegalState("this client is closed") from None
        raise


class _Retry:
    """The time of the next attempt to reach a broker that failed."""

    __slots__ = ("at", "pauses")

    def __init__(self, pauses: Pauses) -> None:
        self.pauses = pauses
        self.at = 0.0
