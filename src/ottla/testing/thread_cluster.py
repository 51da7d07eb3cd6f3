"""A cluster in a thread of its own, for tests that do not wait with `await`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from ottla.testing.group import READY_TIMEOUT_S, NodeGroup
from ottla.testing.life import LivesLoop
from ottla.testing.nodes import NodeView

T = TypeVar("T")


class ClusterThread:
    """The loop of all nodes. Nothing of it is left when it has ended."""

    def __init__(self, group: NodeGroup) -> None:
        self.group = group
        self._loop = LivesLoop()
        # A daemon: a test run that is cut short is not kept from ending.
        self._thread = threading.Thread(target=self._run, name="ottla-cluster", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        if not self._thread.is_alive():
            raise RuntimeError("the cluster is closed")
        return asyncio.run_coroutine_threadsafe(work(), self._loop)

    def look(self, at: Callable[[], T]) -> T:
        """What a function returns that runs between two steps of the nodes."""

        async def run() -> T:
            return at()

        return self.submit(run).result()

    def end(self) -> None:
        """Blocks until the thread is gone. The group must have been closed before."""
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


class Cluster:
    """Made by `cluster()`. Nodes are named by their ids, which are 1, 2, 3, ..."""

    def __init__(self, thread: ClusterThread) -> None:
        self._thread = thread
        self._group = thread.group

    @property
    def bootstrap_servers(self) -> str:
        """Of all nodes, also of those that are down: clients know how to pass over them."""
        return ",".join(node.address for node in self.nodes.values())

    @property
    def nodes(self) -> dict[int, NodeView]:
        return self._thread.look(self._group.views)

    @property
    def controller(self) -> int | None:
        """The node whose controller is active, as far as the others know."""
        return self._thread.look(self._group.controller)

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        return self._thread.look(lambda: self._group.leader_of(topic, partition))

    def kill(self, node: int) -> None:
        """As `kill -9` does: no goodbye to clients, no flush, no clean shutdown."""
        self._wait(lambda: self._group.kill(node))

    def stop(self, node: int) -> None:
        """As Ctrl-C does: its leaders move first."""
        self._wait(lambda: self._group.stop(node))

    def start(self, *nodes: int) -> None:
        """After a kill or a stop, on its data and its port. Returns when it serves clients, which
        takes a majority: if that is down, start several at once."""
        self._wait(lambda: self._group.start(*nodes))

    def restart(self, node: int) -> None:
        self.stop(node)
        self.start(node)

    def pause(self, node: int) -> None:
        """As SIGSTOP does: connections stay open and nothing answers."""
        self._thread.look(lambda: self._group.pause(node))

    def resume(self, node: int) -> None:
        self._thread.look(lambda: self._group.resume(node))

    def add_node(self, settings: Mapping[str, object] | None = None) -> int:
        """One more broker, which takes no part in the quorum; its id."""
        return self._wait(lambda: self._group.add_node(settings or {}))

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Until every node that runs knows every other one as usable."""
        self._wait(lambda: self._group.wait_ready(timeout_s))

    def wait_in_sync(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Until every partition has a leader and all its copies on running nodes are in sync."""
        self._wait(lambda: self._group.wait_in_sync(timeout_s))

    def _wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._thread.submit(work).result()


@contextlib.contextmanager
def cluster(
    nodes: int = 3,
    *,
    settings: Mapping[str, object] | None = None,
    node_settings: Mapping[int, Mapping[str, object]] | None = None,
    folder: str | None = None,
) -> Iterator[Cluster]:
    """A running cluster, ended and removed afterwards.

    `settings` are Kafka's, for all nodes; `node_settings` those of single nodes by id, such as
    `{1: {"broker.rack": "a"}}`. Data lies in a temporary folder, or in `folder`, which is kept.
    """
    with NodeGroup(nodes, settings or {}, node_settings or {}, folder) as group:
        thread = ClusterThread(group)
        thread.start()
        try:
            thread.submit(group.open).result()
            yield Cluster(thread)
        finally:
            try:
                thread.submit(group.close).result()
            finally:
                thread.end()
