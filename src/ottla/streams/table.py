"""A table: the newest record of each key counts, and a null value deletes.

In a query a table is its changes. What filters and maps do to a change, they do to the table.
"""

from __future__ import annotations

from typing import Any

from ottla.streams.durations import Duration, milliseconds
from ottla.streams.errors import BadTopology
from ottla.streams.handle import Handle
from ottla.streams.serdes import Long, Serde
from ottla.streams.stream import Stream
from ottla.streams.topology import stateful as keep
from ottla.streams.topology import stateless as do
from ottla.streams.topology.operation import Function


class Table(Handle):
    def filter(
        self, predicate: Function, *, python: bool = False, named: str | None = None
    ) -> Table:
        """A row for which it does not hold, any more, is deleted."""
        return self._then(do.Filter(predicate, False, python), named)

    def filter_not(
        self, predicate: Function, *, python: bool = False, named: str | None = None
    ) -> Table:
        return self._then(do.Filter(predicate, True, python), named)

    def map_values(
        self,
        function: Function,
        value: Serde | None = None,
        *,
        python: bool = False,
        named: str | None = None,
    ) -> Table:
        """Deleted rows stay deleted: the function does not see them."""
        if python and value is None:
            raise BadTopology("map_values with python=True must say of which form the result is")
        return self._then(do.MapValues(function, value, python), named)

    def to_stream(self, *, named: str | None = None) -> Stream:
        """Its changes, as records; deletions have a null value."""
        node = self._app.add(do.ToStream(), self._node, named=named, family="KTABLE")
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
        """`joiner(mine, theirs)` gets both values, where both tables have the key."""
        return self._then(keep.JoinTables("inner", joiner, value, python), named, other.node)

    def left_join(
        self,
        other: Table,
        joiner: Function,
        value: Serde | None = None,
        *,
        python: bool = False,
        named: str | None = None,
    ) -> Table:
        return self._then(keep.JoinTables("left", joiner, value, python), named, other.node)

    def outer_join(
        self,
        other: Table,
        joiner: Function,
        value: Serde | None = None,
        *,
        python: bool = False,
        named: str | None = None,
    ) -> Table:
        return self._then(keep.JoinTables("outer", joiner, value, python), named, other.node)

    def group_by(
        self,
        function: Function,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        named: str | None = None,
    ) -> GroupedTable:
        """Rows under another key: `function` gives `(key, value)`, of columns."""
        store = self._app.topology.numbered("KTABLE-SELECT-STATE-STORE-")
        operation = keep.Changes(store, function, key, value)
        node = self._app.add(operation, self._node, named=named, family="KTABLE")
        return GroupedTable(self._app, node)

    def suppress(self, until: Duration, *, named: str | None = None) -> Table:
        """The newest change of a key, at most once in this time: fewer records for who reads it."""
        limit = milliseconds(until, "the time of suppress()")
        return self._then(keep.SuppressUntilTime(limit), named)

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
        """Without a time: only the final result of each window, once it is closed."""
        if until is not None:
            return Table(self._app, super().suppress(until, named=named).node)
        if not isinstance(self._node.operation, keep.Aggregate | keep.Reduce | keep.Fold):
            raise BadTopology(
                f"suppress() until windows close must follow the aggregate, not {self.name}:"
                " filter and map what it gives instead"
            )
        node = self._app.add(keep.SuppressUntilClosed(), self._node, named=named, table=True)
        return Table(self._app, node)


class GroupedTable(Handle):
    """Aggregates of it follow its changes: what a row gave before is taken away first."""

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
        return Table(self._app, self._app.add(operation, self._node, named=named, table=True))


class GlobalTable(Handle):
    """A table that every task has whole; streams join it by any key."""
