"""Operations with state. Each has its own query and checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ottla.durations import in_words
from ottla.streams.processor import StoreDeclaration
from ottla.streams.serdes import Serde
from ottla.streams.topology.operation import Function, Operation
from ottla.streams.windows import JoinWindow, Window


@dataclass(frozen=True, eq=False)
class Stored:
    """An operation with one state, which has a name."""

    stateful: ClassVar[bool] = True
    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True, eq=False)
class Aggregate(Stored, Operation):
    """Spark's own aggregates of columns. If `columns` is None, it counts."""

    kind: ClassVar[str] = "AGGREGATE"
    columns: Function | None
    window: Window | None
    value: Serde | None

    def signature(self) -> str:
        what = "count" if self.columns is None else "columns"
        return f"{what} per {self.window or 'key'}"


@dataclass(frozen=True, eq=False)
class Reduce(Stored, Operation):
    kind: ClassVar[str] = "REDUCE"
    function: Function
    window: Window | None

    def signature(self) -> str:
        return f"reduce per {self.window or 'key'}"


@dataclass(frozen=True, eq=False)
class Fold(Stored, Operation):
    """Kafka Streams' `aggregate`: a Python function of the result so far and a record.

    `merger` merges two sessions.
    """

    kind: ClassVar[str] = "AGGREGATE"
    initial: Any
    function: Function
    merger: Function | None
    window: Window | None
    value: Serde

    def signature(self) -> str:
        return f"aggregate per {self.window or 'key'} to {self.value}"


@dataclass(frozen=True, eq=False)
class TableAggregate(Stored, Operation):
    """Aggregates a regrouped table: the old value of a row is subtracted first."""

    kind: ClassVar[str] = "AGGREGATE"
    initial: Any
    adder: Function
    subtractor: Function
    value: Serde

    def signature(self) -> str:
        return f"aggregate of a table to {self.value}"


@dataclass(frozen=True, eq=False)
class Changes(Stored, Operation):
    """The changes of a table, with the old and the new value of a row, grouped by a new key."""

    kind: ClassVar[str] = "SELECT"
    function: Function
    key: Serde | None
    value: Serde | None

    def signature(self) -> str:
        return "changes of a table"


@dataclass(frozen=True, eq=False)
class SuppressUntilClosed(Operation):
    """Emits only the final result of each window. The aggregate does it in another mode."""

    kind: ClassVar[str] = "SUPPRESS"
    stateful: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class SuppressUntilTime(Operation):
    """Emits the newest change of each key, at most once per time limit."""

    kind: ClassVar[str] = "SUPPRESS"
    stateful: ClassVar[bool] = True
    limit_ms: int

    def signature(self) -> str:
        return f"suppress for {in_words(self.limit_ms)}"


@dataclass(frozen=True, eq=False)
class JoinStreams(Operation):
    kind: ClassVar[str] = "JOIN"
    stateful: ClassVar[bool] = True
    how: str
    window: JoinWindow
    joiner: Function
    value: Serde | None
    python: bool

    def signature(self) -> str:
        return f"{self.how} {self.window}"


@dataclass(frozen=True, eq=False)
class JoinTable(Operation):
    """Joins a stream with the newest row of a table. Its parents: the stream, then the table."""

    kind: ClassVar[str] = "JOIN"
    stateful: ClassVar[bool] = True
    how: str
    joiner: Function
    value: Serde | None
    python: bool

    def signature(self) -> str:
        return f"{self.how} join of a stream with a table"


@dataclass(frozen=True, eq=False)
class JoinTables(Operation):
    kind: ClassVar[str] = "JOIN"
    stateful: ClassVar[bool] = True
    how: str
    joiner: Function
    value: Serde | None
    python: bool

    def signature(self) -> str:
        return f"{self.how} join of tables"


@dataclass(frozen=True, eq=False)
class Process(Operation):
    """A processor with stores and schedules. `time` is the clock of the schedules."""

    kind: ClassVar[str] = "PROCESSOR"
    stateful: ClassVar[bool] = True
    factory: Function
    key: Serde | None
    value: Serde
    declared: tuple[StoreDeclaration, ...]
    time: str | None
    grace_ms: int

    @property
    def stores(self) -> tuple[str, ...]:
        return tuple(store.name for store in self.declared)

    def signature(self) -> str:
        return f"processor with {', '.join(map(str, self.declared)) or 'no stores'}"
