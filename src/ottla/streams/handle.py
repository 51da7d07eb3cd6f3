"""What streams and tables have in common: a node of an application's topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ottla.streams.topology.operation import Operation
from ottla.streams.topology.topology import Node

if TYPE_CHECKING:
    from ottla.streams.app import App


class Handle:
    def __init__(self, app: App, node: Node) -> None:
        self._app = app
        self._node = node

    @property
    def node(self) -> Node:
        return self._node

    @property
    def name(self) -> str:
        """Of the node, as `describe()` shows it."""
        return self._node.name

    def _then(self, operation: Operation, named: str | None, *others: Node) -> Self:
        """The same kind of thing, one step further."""
        table = self._node.table
        node = self._app.add(operation, self._node, *others, named=named, table=table)
        return type(self)(self._app, node)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._node.name})"
