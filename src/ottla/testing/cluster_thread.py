"""The thread in which the nodes of a cluster run, beside that of the test."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.testing.group import NodeGroup
from ottla.testing.life import LivesLoop

T = TypeVar("T")


class ClusterThread:
    """The event loop of all nodes. Nothing is left of it after `end`."""

    def __init__(self, group: NodeGroup) -> None:
        self.group = group
        self._loop = LivesLoop()
        # A daemon, so that an interrupted test run can end.
        self._thread = threading.Thread(target=self._run, name="ottla-cluster", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        if not self._thread.is_alive():
            raise RuntimeError("the cluster is closed")
        return asyncio.run_coroutine_threadsafe(work(), self._loop)

    def look(self, at: Callable[[], T]) -> T:
        """Call a function between two steps of the nodes, and return its result."""

        async def run() -> T:
            return at()

        return self.submit(run).result()

    def end(self) -> None:
        """Wait until the thread has ended. The group must be closed before."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self.group.bury()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            asyncio.set_event_loop(None)
            self._loop.close()
