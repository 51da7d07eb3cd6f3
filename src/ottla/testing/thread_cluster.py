"""A cluster in a thread of its own, for tests that do not wait with `await`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from ottla.testing.cluster_thread import ClusterThread
from ottla.testing.group import READY_TIMEOUT_S, NodeGroup
from ottla.testing.running_cluster import RunningCluster

T = TypeVar("T")


class Cluster(RunningCluster):
    """Made by `cluster()`."""

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
