"""The same cluster for tests that use `await`.

The nodes still have their own thread and loop: a test that keeps its loop busy must not make its
brokers miss heartbeats.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from ottla.testing.cluster_thread import ClusterThread
from ottla.testing.group import READY_TIMEOUT_S, NodeGroup
from ottla.testing.running_cluster import RunningCluster
from ottla.testing.security import Security

T = TypeVar("T")


class AsyncCluster(RunningCluster):
    """Like `Cluster`, with `await`. Created by `async_cluster()`."""

    async def kill(self, node: int) -> None:
        await self._wait(lambda: self._group.kill(node))

    async def stop(self, node: int) -> None:
        await self._wait(lambda: self._group.stop(node))

    async def start(self, *nodes: int) -> None:
        await self._wait(lambda: self._group.start(*nodes))

    async def restart(self, node: int) -> None:
        await self.stop(node)
        await self.start(node)

    async def add_node(self, settings: Mapping[str, object] | None = None) -> int:
        return await self._wait(lambda: self._group.add_node(settings or {}))

    async def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        await self._wait(lambda: self._group.wait_ready(timeout_s))

    async def wait_in_sync(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        await self._wait(lambda: self._group.wait_in_sync(timeout_s))

    async def _wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await asyncio.wrap_future(self._thread.submit(work))


@contextlib.asynccontextmanager
async def async_cluster(
    nodes: int = 3,
    *,
    settings: Mapping[str, object] | None = None,
    node_settings: Mapping[int, Mapping[str, object]] | None = None,
    folder: str | None = None,
    security: Security | None = None,
) -> AsyncIterator[AsyncCluster]:
    """Like `cluster()`."""
    with NodeGroup(nodes, settings or {}, node_settings or {}, folder, security) as group:
        thread = ClusterThread(group)
        thread.start()
        try:
            await asyncio.wrap_future(thread.submit(group.open))
            yield AsyncCluster(thread)
        finally:
            try:
                await asyncio.shield(asyncio.wrap_future(thread.submit(group.close)))
            finally:
                await asyncio.to_thread(thread.end)
