"""What a test sees of a cluster, and does to it, without waiting for anything."""

from __future__ import annotations

from ottla.testing.cluster_thread import ClusterThread
from ottla.testing.nodes import NodeView


class RunningCluster:
    """Nodes are named by their ids, which are 1, 2, 3, ..."""

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

    def pause(self, node: int) -> None:
        """As SIGSTOP does: connections stay open and nothing answers."""
        self._thread.look(lambda: self._group.pause(node))

    def resume(self, node: int) -> None:
        self._thread.look(lambda: self._group.resume(node))
