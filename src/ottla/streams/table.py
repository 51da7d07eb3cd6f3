"""A table: the newest record of each key counts, and a null value deletes.

In a query a table is its changes: filters and maps work on each change.
"""

from __future__ import annotations

from typing import Any

from ottla.streams.durations import Duration, milliseconds
from ottla.streams.errors import BadTopology
from ottla.streams.handle import Handle, then
from ottla.streams.serdes import Long, Serde
from ottla.streams.stream import Stream
from ottla.streams.topology import stateful as keep
from ottla.streams.topology import stateless as do
from ottla.streams.topology.operation import Function


class Table(Handle):
    def filter(
        self, predicate: Function, *, python: bool = False, named: str | None = None
    ) -> Table:
        """Keep rows for which the predicate is true; delete a row for which it no longer is."""
        return then(self, do.Filter(predicate, False, python), named)

    def filter_not(
        self, predicate: Function, *, python: bool = False, named: str | None = None
    ) -> Table:
        return then(self, do.Filter(predicate, True, python), named)

    def map_values(
        self,
        function: Function,
        value: Serde | None = None,
        *,
        python: bool = False,
        named: str | None = None,
    ) -> Table:
        """Map the values. The function is not called for deleted rows, which stay deleted."""
        if python and value is None:
            raise BadTopology("map_values with python=True must say of which form the result is")
        return then(self, do.MapValues(function, value, python), named)

    def to_stream(self, *, named: str | None = None) -> Stream:
        """Return its changes as records; deletions have a null value."""
        node = self._app.add(do.ToStream(), self.node, named=named, family="KTABLE")
        return Stream(self._app, node)

    def join(
        self,
        other: Table,
        joiner: Function,
        value: Serde | None = None,
        *,
        python: bool = False,
        named: str | None = None,
    ) -> Table:
        """Join rows of both tables by key; `joiner(mine, theirs)` gets both values."""
        return then(self, keep.JoinTables("inner", joiner, value, python), named, other.node)

    def left_join(
        self,
        other: Table,
        joiner: Function,
        value: Serde | None = None,
        *,
        python: bool = False,
        named: str | None = None,
    ) -> Table:
        return then(self, keep.JoinTables("left", joiner, value, python), named, other.node)

    def outer_join(
        self,
        other: Table,
        joiner: Function,
        value: Serde | None = None,
        *,
        python: bool = False,
        named: str | None = None,
    ) -> Table:
        return then(self, keep.JoinTables("outer", joiner, value, python), named, other.node)

    def group_by(
        self,
        function: Function,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        named: str | None = None,
    ) -> GroupedTable:
        """Group rows by another key: `function` returns `(key, value)` as columns."""
        store = self._app.topology.numbered("KTABLE-SELECT-STATE-STORE-")
        operation = keep.Changes(store, function, key, value)
        node = self._app.add(operation, self.node, named=named, family="KTABLE")
        return GroupedTable(self._app, node)

    def suppress(self, until: Duration, *, named: str | None = None) -> Table:
        """Emit only the newest change of a key, at most once in this time, for fewer records."""
        limit = milliseconds(until, "the time of suppress()")
        return then(self, keep.SuppressUntilTime(limit), named)

    def to(
        self,
        topic: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        named: str | None = None,
    ) -> None:
        """Short for `to_stream().to(...)`."""
        self.to_stream().to(topic, key=key, value=value, named=named)


class WindowedTable(Table):
    def suppress(self, until: Duration | None = None, *, named: str | None = None) -> Table:
        """Without a time: emit only the final result of each window, once it is closed."""
        if until is not None:
            return Table(self._app, super().suppress(until, named=named).node)
        if not isinstance(self.node.operation, keep.Aggregate | keep.Reduce | keep.Fold):
            raise BadTopology(
                f"suppress() until windows close must follow the aggregate, not {self.name}:"
                " filter and map what it gives instead"
            )
        node = self._app.add(keep.SuppressUntilClosed(), self.node, named=named, table=True)
        return Table(self._app, node)


class GroupedTable(Handle):
    """Its aggregates follow its changes: the old value of a row is subtracted first."""

    def count(self, *, store: str | None = None, named: str | None = None) -> Table:
        def add(_key: object, _value: object, count: int) -> int:
            return count + 1

        def subtract(_key: object, _value: object, count: int) -> int:
            return count - 1

        return self.aggregate(0, add, subtract, Long(), store=store, named=named)

    def aggregate(
        self,
        initial: Any,
        adder: Function,
        subtractor: Function,
        value: Serde,
        *,
        store: str | None = None,
        named: str | None = None,
    ) -> Table:
        """`adder` and `subtractor` are Python functions of `(key, value, result so far)`."""
        name = store or self._app.topology.numbered("KTABLE-AGGREGATE-STATE-STORE-")
        operation = keep.TableAggregate(name, initial, adder, subtractor, value)
        return Table(self._app, self._app.add(operation, self.node, named=named, table=True))


class GlobalTable(Handle):
    """A table that every task reads whole; streams join it by any key."""
