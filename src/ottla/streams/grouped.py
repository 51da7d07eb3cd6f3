"""Records of a stream, grouped by key, to aggregate.

`count` and `agg` are Spark's own aggregates. `reduce` and `aggregate` call Python functions for
every record, as Kafka Streams does in Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.streams.errors import BadTopology
from ottla.streams.serdes import Long, Serde
from ottla.streams.topology import stateful as keep
from ottla.streams.topology.operation import Function, Operation
from ottla.streams.topology.topology import Node
from ottla.streams.windows import Session, Window

if TYPE_CHECKING:
    from ottla.streams.app import App
    from ottla.streams.table import Table, WindowedTable


class _Grouped:
    def __init__(self, app: App, node: Node, window: Window | None) -> None:
        self._app = app
        self._node = node
        self._window = window

    def _store(self, name: str | None, kind: str) -> str:
        return name or self._app.topology.numbered(f"KSTREAM-{kind}-STATE-STORE-")

    def _add(self, operation: Operation, named: str | None) -> Node:
        return self._app.add(operation, self._node, named=named, table=True, family="KSTREAM")

    def _count(self, store: str | None, named: str | None) -> Node:
        name = self._store(store, "AGGREGATE")
        return self._add(keep.Aggregate(name, None, self._window, Long()), named)

    def _agg(
        self, columns: Function, value: Serde | None, store: str | None, named: str | None
    ) -> Node:
        name = self._store(store, "AGGREGATE")
        return self._add(keep.Aggregate(name, columns, self._window, value), named)

    def _reduce(self, function: Function, store: str | None, named: str | None) -> Node:
        name = self._store(store, "REDUCE")
        return self._add(keep.Reduce(name, function, self._window), named)

    def _fold(
        self,
        initial: Any,
        function: Function,
        value: Serde,
        merger: Function | None,
        store: str | None,
        named: str | None,
    ) -> Node:
        if isinstance(self._window, Session) and merger is None:
            raise BadTopology("sessions can meet: give merger=, which makes one of two results")
        name = self._store(store, "AGGREGATE")
        return self._add(keep.Fold(name, initial, function, merger, self._window, value), named)


class GroupedStream(_Grouped):
    def __init__(self, app: App, node: Node) -> None:
        super().__init__(app, node, None)

    def windowed_by(self, window: Window) -> WindowedStream:
        return WindowedStream(self._app, self._node, window)

    def count(self, *, store: str | None = None, named: str | None = None) -> Table:
        return self._table(self._count(store, named))

    def agg(
        self,
        columns: Function,
        value: Serde | None = None,
        *,
        store: str | None = None,
        named: str | None = None,
    ) -> Table:
        """Aggregate with any of Spark's functions: `lambda r: {"total": F.sum(r.value.amount)}`."""
        return self._table(self._agg(columns, value, store, named))

    def reduce(
        self, function: Function, *, store: str | None = None, named: str | None = None
    ) -> Table:
        """Aggregate with `function(value so far, new value)` in Python, from the first value on."""
        return self._table(self._reduce(function, store, named))

    def aggregate(
        self,
        initial: Any,
        function: Function,
        value: Serde,
        *,
        store: str | None = None,
        named: str | None = None,
    ) -> Table:
        """Aggregate with `function(key, new value, result so far)` in Python, from `initial` on."""
        return self._table(self._fold(initial, function, value, None, store, named))

    def _table(self, node: Node) -> Table:
        from ottla.streams.table import Table

        return Table(self._app, node)


class WindowedStream(_Grouped):
    """The keys of the results have the fields `key` and `window` (`start`, `end`)."""

    def __init__(self, app: App, node: Node, window: Window) -> None:
        super().__init__(app, node, window)

    def count(self, *, store: str | None = None, named: str | None = None) -> WindowedTable:
        return self._table(self._count(store, named))

    def agg(
        self,
        columns: Function,
        value: Serde | None = None,
        *,
        store: str | None = None,
        named: str | None = None,
    ) -> WindowedTable:
        """Aggregate with any of Spark's functions: `lambda r: {"total": F.sum(r.value.amount)}`."""
        return self._table(self._agg(columns, value, store, named))

    def reduce(
        self, function: Function, *, store: str | None = None, named: str | None = None
    ) -> WindowedTable:
        """Aggregate with `function(value so far, new value)` in Python, from the first value on."""
        return self._table(self._reduce(function, store, named))

    def aggregate(
        self,
        initial: Any,
        function: Function,
        value: Serde,
        *,
        merger: Function | None = None,
        store: str | None = None,
        named: str | None = None,
    ) -> WindowedTable:
        """`function(key, new value, result so far)`; `merger(key, one, other)` is for sessions."""
        return self._table(self._fold(initial, function, value, merger, store, named))

    def _table(self, node: Node) -> WindowedTable:
        from ottla.streams.table import WindowedTable

        return WindowedTable(self._app, node)
