"""The common base of streams and tables: a node of an application's topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.streams.topology.operation import Operation
from ottla.streams.topology.topology import Node

if TYPE_CHECKING:
    from ottla.streams.app import App


H = TypeVar("H", bound="Handle")


class Handle:
    def __init__(self, app: App, node: Node) -> None:
        self._app = app
        self._node = node

    @property
    def node(self) -> Node:
        return self._node

    @property
    def name(self) -> str:
        """The name of the node, as `describe()` shows it."""
        return self._node.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._node.name})"


def then(handle: H, operation: Operation, named: str | None, *others: Node) -> H:
    """Return a handle of the same kind for a new node after this one."""
    table = handle.node.table
    node = handle._app.add(operation, handle.node, *others, named=named, table=table)
    return type(handle)(handle._app, node)
