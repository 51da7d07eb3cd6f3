"""An admin's link to its cluster: connects, and sends each request to the broker that serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.errors import IllegalState
from ottla.client.network.cluster import Cluster
from ottla.client.settings.common import ClientSettings
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.ambient import new_runtime

if TYPE_CHECKING:
    from ottla.network.connection import Connection
    from ottla.runtime.runtime import Runtime

T = TypeVar("T")


class AdminLink:
    def __init__(
        self, settings: ClientSettings, runtime: Runtime | None, cluster: Cluster | None = None
    ) -> None:
        """A given `cluster` belongs to another owner: it is connected, and not closed here."""
        self._settings = settings
        self._given_runtime = runtime
        self._own_runtime: Runtime | None = None
        self._joined = cluster
        self._owns_cluster = cluster is None

    async def start(self) -> None:
        if self._joined is not None:
            return
        runtime = self._given_runtime
        if runtime is None:
            runtime = self._own_runtime = new_runtime()
        cluster = Cluster.of(self._settings, runtime)
        try:
            await cluster.retrying(cluster.any_broker)
        except BaseException:
            cluster.close()
            await self._close_runtime()
            raise
        self._joined = cluster

    async def close(self) -> None:
        if self._owns_cluster and self._joined is not None:
            self._joined.close()
            self._joined = None
        await self._close_runtime()

    async def _close_runtime(self) -> None:
        runtime, self._own_runtime = self._own_runtime, None
        if runtime is not None:
            await runtime.close()

    # Requests

    @property
    def cluster(self) -> Cluster:
        if self._joined is None:
            raise IllegalState(
                "this Admin is not connected: write `async with Admin(...) as admin`, or await "
                "start() first and use it before close()"
            )
        return self._joined

    async def change(self, make: Callable[[Connection], Any]) -> Any:
        """Send a change to the controller. Retry only if the change was certainly not made."""

        async def attempt() -> Any:
            connection = await self.cluster.controller()
            response = await connection.request(make(connection))
            if ErrorCode.NOT_CONTROLLER in _codes(response):
                await self.cluster.refresh(())
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            return response

        return await self.cluster.retrying(attempt, resend=False)

    async def ask_any(self, request: Any) -> Any:
        """Send a request that every broker can answer."""

        async def attempt() -> Any:
            return await (await self.cluster.any_broker()).request(request)

        return await self.cluster.retrying(attempt)

    async def ask_each_broker(
        self, ask: Callable[[int], Awaitable[list[T]]], brokers: Iterable[int] | None = None
    ) -> list[T]:
        """Ask all brokers, or the given ones, and join their results."""
        await self.cluster.retrying(lambda: self.cluster.refresh(()))
        nodes = sorted(self.cluster.view.brokers if brokers is None else set(brokers))

        async def ask_one(node_id: int) -> list[T]:
            return await self.cluster.retrying(lambda: ask(node_id))

        parts = await asyncio.gather(*(ask_one(node_id) for node_id in nodes))
        return [found for part in parts for found in part]


def _codes(response: Any) -> set[int]:
    """Return the error codes of a response and of its items, whatever their field is called."""
    found = {getattr(response, "error_code", 0)}
    for name in ("topics", "responses", "results", "entries"):
        found |= {getattr(item, "error_code", 0) for item in getattr(response, name, None) or ()}
    return found
