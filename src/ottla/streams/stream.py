"""A stream: each record is a separate fact.

Functions get a record: `r.key`, `r.value`, `r.timestamp`, `r.headers`, `r.topic`. They are called
once, with columns, and return expressions that Spark runs without Python. With `python=True` they
are called for every record, with Python's values, in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, overload

from ottla.streams.durations import Duration, milliseconds
from ottla.streams.errors import BadTopology
from ottla.streams.grouped import GroupedStream
from ottla.streams.handle import Handle, then
from ottla.streams.processor import StoreDeclaration, check_clock
from ottla.streams.serdes import Serde
from ottla.streams.topology import stateful as keep
from ottla.streams.topology import stateless as do
from ottla.streams.topology.ends import Repartition, Sink
from ottla.streams.topology.operation import Function
from ottla.streams.windows import JoinWindow

if TYPE_CHECKING:
    from ottla.streams.operators.context import Processor
    from ottla.streams.table import GlobalTable, Table


class Stream(Handle):
    # One record at a time

    def filter(
        self, predicate: Function, *, python: bool = False, named: str | None = None
    ) -> Stream:
        """Keep only records for which the predicate is true."""
        return then(self, do.Filter(predicate, False, python), named)

    def filter_not(
        self, predicate: Function, *, python: bool = False, named: str | None = None
    ) -> Stream:
        """Keep only records for which the predicate is not true."""
        return then(self, do.Filter(predicate, True, python), named)

    def map(
        self,
        function: Function,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        python: bool = False,
        named: str | None = None,
    ) -> Stream:
        """Replace each record; `function` returns `(key, value)`."""
        _needs_serdes(python, "map", key=key, value=value)
        return then(self, do.Map(function, key, value, python), named)

    def map_values(
        self,
        function: Function,
        value: Serde | None = None,
        *,
        python: bool = False,
        named: str | None = None,
    ) -> Stream:
        _needs_serdes(python, "map_values", value=value)
        return then(self, do.MapValues(function, value, python), named)

    def flat_map(
        self,
        function: Function,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        python: bool = False,
        named: str | None = None,
    ) -> Stream:
        """`function` returns `(key, value)` pairs, as a list or as an array column of structs."""
        _needs_serdes(python, "flat_map", key=key, value=value)
        return then(self, do.FlatMap(function, key, value, python), named)

    def flat_map_values(
        self,
        function: Function,
        value: Serde | None = None,
        *,
        python: bool = False,
        named: str | None = None,
    ) -> Stream:
        """`function` returns values, as a list or as an array column."""
        _needs_serdes(python, "flat_map_values", value=value)
        return then(self, do.FlatMapValues(function, value, python), named)

    def select_key(
        self,
        function: Function,
        key: Serde | None = None,
        *,
        python: bool = False,
        named: str | None = None,
    ) -> Stream:
        _needs_serdes(python, "select_key", key=key)
        return then(self, do.SelectKey(function, key, python), named)

    def peek(self, function: Function, *, named: str | None = None) -> Stream:
        """Call a Python function for each record; its effects may happen more than once."""
        return then(self, do.Peek(function), named)

    # Splitting and merging

    def branch(
        self, *predicates: Function, python: bool = False, named: str | None = None
    ) -> list[Stream]:
        """Return a stream for each predicate and one for the rest; the first true one wins."""
        if not predicates:
            raise BadTopology("branch() needs at least one predicate")
        branching = self._app.add(do.Branch(predicates, python), self.node, named=named)
        names = [f"{branching.name}-{number}" for number in range(len(predicates) + 1)]
        return [
            Stream(self._app, self._app.add(do.BranchChild(number), branching, named=name))
            for number, name in enumerate(names)
        ]

    def split(self, *, python: bool = False, **predicates: Function) -> dict[str, Stream]:
        """Like `branch`, with names; the rest is under `"rest"`."""
        if "rest" in predicates:
            raise BadTopology("split() keeps the name 'rest' for what no predicate takes")
        streams = self.branch(*predicates.values(), python=python)
        return dict(zip([*predicates, "rest"], streams, strict=True))

    def merge(self, *others: Stream, named: str | None = None) -> Stream:
        """Return the records of all streams, in no particular order between them."""
        nodes = [self.node, *(other.node for other in others)]
        return Stream(self._app, self._app.add(do.Merge(), *nodes, named=named))

    # By key

    def group_by_key(self) -> GroupedStream:
        return GroupedStream(self._app, self.node)

    def group_by(
        self, function: Function, key: Serde | None = None, *, python: bool = False
    ) -> GroupedStream:
        """Group by another key than the records have."""
        return self.select_key(function, key, python=python).group_by_key()

    def to_table(self, *, named: str | None = None) -> Table:
        """Return a table: the newest record of each key counts, and null deletes."""
        from ottla.streams.table import Table

        return Table(self._app, self._app.add(do.ToTable(), self.node, named=named, table=True))

    def repartition(
        self,
        *,
        partitions: int | None = None,
        key: Serde | None = None,
        value: Serde | None = None,
        named: str | None = None,
    ) -> Stream:
        """Send through an internal topic. Rarely needed: stateful operations shuffle by key."""
        return then(self, Repartition(partitions, key, value), named)

    # Joins

    @overload
    def join(
        self,
        other: Stream,
        joiner: Function,
        window: JoinWindow,
        *,
        value: Serde | None = None,
        python: bool = False,
        named: str | None = None,
    ) -> Stream: ...

    @overload
    def join(
        self,
        other: Table | GlobalTable,
        joiner: Function,
        *,
        on: Function | None = None,
        value: Serde | None = None,
        python: bool = False,
        named: str | None = None,
    ) -> Stream: ...

    def join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: Function,
        window: JoinWindow | None = None,
        *,
        on: Function | None = None,
        value: Serde | None = None,
        python: bool = False,
        named: str | None = None,
    ) -> Stream:
        """Join by key; `joiner(mine, theirs)` gets both values. Streams join in a window.

        With a global table, `on` returns the key to look up, if it is not the record's own.
        """
        return self._join("inner", other, joiner, window, on, value, python, named)

    def left_join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: Function,
        window: JoinWindow | None = None,
        *,
        on: Function | None = None,
        value: Serde | None = None,
        python: bool = False,
        named: str | None = None,
    ) -> Stream:
        """Like `join`, and keep records without a match: `theirs` is null then."""
        return self._join("left", other, joiner, window, on, value, python, named)

    def outer_join(
        self,
        other: Stream,
        joiner: Function,
        window: JoinWindow,
        *,
        value: Serde | None = None,
        python: bool = False,
        named: str | None = None,
    ) -> Stream:
        """Like `join`, and keep records of both sides without a match."""
        return self._join("outer", other, joiner, window, None, value, python, named)

    def _join(
        self,
        how: str,
        other: Stream | Table | GlobalTable,
        joiner: Function,
        window: JoinWindow | None,
        on: Function | None,
        value: Serde | None,
        python: bool,
        named: str | None,
    ) -> Stream:
        from ottla.streams.table import GlobalTable, Table

        _needs_serdes(python, f"{how} join", value=value)
        if on is not None and not isinstance(other, GlobalTable):
            raise BadTopology("on= is for global tables; use select_key() before the join")
        if isinstance(other, GlobalTable):
            operation = do.JoinGlobal(how, on, joiner, value, python)
            return then(self, operation, named, other.node)
        if isinstance(other, Table):
            return then(self, keep.JoinTable(how, joiner, value, python), named, other.node)
        if window is None:
            raise BadTopology("streams join within a time: give a JoinWindow('5 minutes')")
        return then(self, keep.JoinStreams(how, window, joiner, value, python), named, other.node)

    # Processors

    def process(
        self,
        factory: Callable[[], Processor],
        value: Serde,
        *,
        key: Serde | None = None,
        stores: Sequence[StoreDeclaration] = (),
        time: str | None = None,
        grace: Duration = "0 ms",
        named: str | None = None,
    ) -> Stream:
        """Run your processor, with stores and schedules; return the stream of what it forwards.

        `factory` (a class will do) makes one for each batch and bucket of keys. `time` is the clock
        of schedules, STREAM_TIME or WALL_CLOCK; stream time is `grace` behind the newest record.
        """
        check_clock(time)
        grace_ms = milliseconds(grace, "grace of process()")
        operation = keep.Process(factory, key, value, tuple(stores), time, grace_ms)
        return then(self, operation, named)

    # Outputs

    def to(
        self,
        topic: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        named: str | None = None,
    ) -> None:
        """Write to a topic, exactly once. The serdes are those of key and value by default."""
        self._app.add(Sink(topic, key, value), self.node, named=named)

    def through(
        self,
        topic: str,
        *,
        key: Serde,
        value: Serde,
        named: str | None = None,
    ) -> Stream:
        """Write to one of your topics and read from there."""
        self.to(topic, key=key, value=value, named=named)
        return self._app.stream(topic, key=key, value=value)


def _needs_serdes(python: bool, verb: str, **serdes: Serde | None) -> None:
    missing = [name for name, serde in serdes.items() if serde is None]
    if python and missing:
        raise BadTopology(
            f"{verb} with python=True must say of which form the result is:"
            f" give {' and '.join(f'{name}=' for name in missing)}"
        )
