"""The state of a test's cluster, and the operations on it that do not wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from ottla.testing.cluster_thread import ClusterThread
from ottla.testing.nodes import NodeView

if TYPE_CHECKING:
    from ottla.testing.other_clients import Library


class RunningCluster:
    """Nodes are identified by their ids: 1, 2, 3, ..."""

    def __init__(self, thread: ClusterThread) -> None:
        self._thread = thread
        self._group = thread.group

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, including those that are down: clients skip them."""
        return self._thread.look(lambda: self._group.bootstrap_servers)

    def options(self, user: str | None = None) -> dict[str, Any]:
        """Return the options of Ottla's clients: `Producer(**cluster.options("alice"))`. In a
        secured cluster they sign in as `user`, or else as the first super user."""
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap_servers}
        if self._group.security is not None:
            return options | self._group.security.options(user)
        if user is not None:
            raise ValueError("this cluster has no users: begin it with security=Security(...)")
        return options

    @overload
    def client_settings(
        self, user: str | None = None, library: Literal["librdkafka", "java"] = ...
    ) -> dict[str, str]: ...

    @overload
    def client_settings(self, user: str | None = None, *, library: Library) -> dict[str, Any]: ...

    def client_settings(
        self, user: str | None = None, library: Library = "librdkafka"
    ) -> dict[str, Any]:
        """Return the same for another library: `librdkafka` (confluent-kafka, kcat), `java`,
        `kafka-python` or `aiokafka`."""
        from ottla.testing.other_clients import settings_of

        return settings_of(library, self.options(user))

    @property
    def nodes(self) -> dict[int, NodeView]:
        return self._thread.look(self._group.views)

    @property
    def controller(self) -> int | None:
        """The active controller, as far as the other nodes know."""
        return self._thread.look(self._group.controller)

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        return self._thread.look(lambda: self._group.leader_of(topic, partition))

    def pause(self, node: int) -> None:
        """Freeze a node as SIGSTOP does: its connections stay open, but it does not answer."""
        self._thread.look(lambda: self._group.pause(node))

    def resume(self, node: int) -> None:
        self._thread.look(lambda: self._group.resume(node))
