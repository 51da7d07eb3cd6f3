"""One node of a test's cluster, in the loop of the cluster: its lives, one after the other."""

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
    """What a test sees of a node at one moment."""

    id: int
    address: str
    """host:port, the same over all of its lives."""
    folder: str
    state: str
    """running, paused, or stopped (also after a kill)."""


class NodeDown(RuntimeError):
    """Something was asked of a node that does not run."""


class HostedNode:
    """Call it in the loop only."""

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

    # --- lives ----------------------------------------------------------------------------------

    async def start(self, changed: Callable[..., object]) -> None:
        """Until the node itself says that it has started. `changed` is called with each change of
        the metadata it knows."""
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
        """As after Ctrl-C; one that does not end in time is killed."""
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
        """As after `kill -9`, and once the disk calls that were under way are over."""
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
        """End what the killed lives left half done, when nothing can come of it any more."""
        for task in self._dead_tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if isinstance(task, asyncio.Task) and isinstance(coro := task.get_coro(), Coroutine):
                try:
                    coro.close()
                except BaseException:
                    pass  # it complains that its disk or its loop is gone: so it is
        self._dead_tasks.clear()

    def _check_running(self) -> Life:
        if self._life is None:
            raise NodeDown(f"node {self.number} is not running")
        return self._life

    async def _in_life(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it as this node. A kill from another task meanwhile ends the wait."""
        life = self._check_running()
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, context=life.context.copy())
        while not task.done():
            # A look now and then, for a dead life cannot call back.
            await asyncio.wait([task], timeout=0.5)
            if not life.alive:
                raise NodeDown(f"node {self.number} was killed")
        task.result()


async def _close(node: Node, runtime: TestRuntime) -> None:
    await node.stop()
    await runtime.close()
