"""A cluster in its own thread, for tests without `await`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from ottla.testing.cluster_thread import ClusterThread
from ottla.testing.group import READY_TIMEOUT_S, NodeGroup
from ottla.testing.running_cluster import RunningCluster
from ottla.testing.security import Security

T = TypeVar("T")


class Cluster(RunningCluster):
    """Created by `cluster()`."""

    def kill(self, node: int) -> None:
        """Kill a node as `kill -9` does: without closing connections cleanly, flush or shutdown."""
        self._wait(lambda: self._group.kill(node))

    def stop(self, node: int) -> None:
        """Stop a node as Ctrl-C does: it moves its leaders first."""
        self._wait(lambda: self._group.stop(node))

    def start(self, *nodes: int) -> None:
        """Start nodes after a kill or stop, with the same data and port. Return when they serve
        clients, which needs a majority: if that is down, start several at once."""
        self._wait(lambda: self._group.start(*nodes))

    def restart(self, node: int) -> None:
        self.stop(node)
        self.start(node)

    def add_node(self, settings: Mapping[str, object] | None = None) -> int:
        """Add a broker that is not part of the quorum, and return its id."""
        return self._wait(lambda: self._group.add_node(settings or {}))

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every running node sees every other one as active."""
        self._wait(lambda: self._group.wait_ready(timeout_s))

    def wait_in_sync(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until each partition has a leader, and its replicas on running nodes are in sync."""
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
    security: Security | None = None,
) -> Iterator[Cluster]:
    """A running cluster, which is stopped and removed at the end.

    `settings` are Kafka's, for all nodes; `node_settings` those of single nodes by id, such as
    `{1: {"broker.rack": "a"}}`. Data is in a temporary folder, or in `folder`, which is kept. With
    `security`, clients sign in and need ACLs: see `Security`.
    """
    with NodeGroup(nodes, settings or {}, node_settings or {}, folder, security) as group:
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
