"""One node of a test's cluster, in the cluster's loop, over all its starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ottla.config.broker import BrokerConfig
from ottla.node import Node
from ottla.testing.life import Life
from ottla.testing.runtime import TestRuntime
from ottla.testing.settings import HOST

STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class NodeView:
    """The state of a node at one moment."""

    id: int
    address: str
    """host:port; it stays the same when the node is restarted."""
    folder: str
    state: str
    """running, paused, or stopped (also after a kill)."""


class NodeDown(RuntimeError):
    """A call that does not fit the state of a node, such as `stop` if it is not running."""


class HostedNode:
    """Use it only in the loop."""

    def __init__(self, number: int, folder: str, settings: Callable[[int], dict[str, str]]) -> None:
        self.number = number
        self.folder = folder
        self.port = 0
        self._settings = settings
        self._node: Node | None = None
        self._runtime: TestRuntime | None = None
        self._life: Life | None = None
        self._dead_tasks: list[asyncio.Future[Any]] = []

    @property
    def is_running(self) -> bool:
        return self._life is not None

    @property
    def node(self) -> Node | None:
        return self._node

    def view(self) -> NodeView:
        state = "stopped" if self._life is None else "paused" if self._life.paused else "running"
        return NodeView(self.number, f"{HOST}:{self.port}", self.folder, state)

    # --- start and end --------------------------------------------------------------------------

    async def start(self, changed: Callable[..., object]) -> None:
        """Return when the node has started. `changed` is called when its metadata changes."""
        if self._life is not None:
            raise NodeDown(f"node {self.number} is running: stop or kill it before starting it")
        self._life = Life()
        try:
            await self._in_life(self._open(changed))
        except BaseException:
            await self.kill()
            raise

    async def _open(self, changed: Callable[..., object]) -> None:
        self._runtime = TestRuntime()
        node = Node(self._runtime, BrokerConfig.parse(self._settings(self.port)))
        await node.start()
        self.port = node.addresses[0][1]
        node.metadata.subscribe(changed)
        self._node = node

    async def stop(self) -> None:
        """Stop as after Ctrl-C; if that takes too long, kill."""
        life, node, runtime = self._check_running(), self._node, self._runtime
        if life.paused:
            self.resume()
        try:
            if node is not None and runtime is not None:
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await self._in_life(_close(node, runtime))
        finally:
            await self.kill()

    async def kill(self) -> None:
        """Kill as `kill -9` does. Return when pending disk calls have ended."""
        if self._life is None:
            return
        self._dead_tasks += self._life.die()
        runtime, self._life, self._node, self._runtime = self._runtime, None, None, None
        if runtime is not None:
            runtime.abandon()
            await asyncio.to_thread(runtime.join_threads)

    def pause(self) -> None:
        self._check_running().pause()

    def resume(self) -> None:
        self._check_running().resume()

    def bury(self) -> None:
        """Close the tasks that killed nodes left unfinished, once they can have no effect."""
        for task in self._dead_tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if isinstance(task, asyncio.Task) and isinstance(coro := task.get_coro(), Coroutine):
                try:
                    coro.close()
                except BaseException:
                    pass  # it fails because its disk or its loop is gone
        self._dead_tasks.clear()

    def _check_running(self) -> Life:
        if self._life is None:
            raise NodeDown(f"node {self.number} is not running")
        return self._life

    async def _in_life(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as this node. A kill by another task ends the wait."""
        life = self._check_running()
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, context=life.context.copy())
        while not task.done():
            # Check at intervals, because a killed node cannot call back.
            await asyncio.wait([task], timeout=0.5)
            if not life.alive:
                raise NodeDown(f"node {self.number} was killed")
        task.result()


async def _close(node: Node, runtime: TestRuntime) -> None:
    await node.stop()
    await runtime.close()
