"""Operations on single records.

With `python`, a function is called for each record with Python's values; without it once, when the
query is built, with columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ottla.streams.serdes import Serde
from ottla.streams.topology.operation import Function, Operation


@dataclass(frozen=True, eq=False)
class Filter(Operation):
    kind: ClassVar[str] = "FILTER"
    function: Function
    negated: bool
    python: bool


@dataclass(frozen=True, eq=False)
class Map(Operation):
    """`function` returns a key and a value."""

    kind: ClassVar[str] = "MAP"
    function: Function
    key: Serde | None
    value: Serde | None
    python: bool


@dataclass(frozen=True, eq=False)
class MapValues(Operation):
    kind: ClassVar[str] = "MAPVALUES"
    function: Function
    value: Serde | None
    python: bool


@dataclass(frozen=True, eq=False)
class FlatMap(Operation):
    """`function` returns any number of keys and values."""

    kind: ClassVar[str] = "FLATMAP"
    function: Function
    key: Serde | None
    value: Serde | None
    python: bool


@dataclass(frozen=True, eq=False)
class FlatMapValues(Operation):
    kind: ClassVar[str] = "FLATMAPVALUES"
    function: Function
    value: Serde | None
    python: bool


@dataclass(frozen=True, eq=False)
class SelectKey(Operation):
    kind: ClassVar[str] = "KEY-SELECT"
    function: Function
    key: Serde | None
    python: bool


@dataclass(frozen=True, eq=False)
class Peek(Operation):
    kind: ClassVar[str] = "PEEK"
    function: Function


@dataclass(frozen=True, eq=False)
class Branch(Operation):
    """Marks each record with the number of the first predicate that is true."""

    kind: ClassVar[str] = "BRANCH"
    predicates: tuple[Function, ...]
    python: bool


@dataclass(frozen=True, eq=False)
class BranchChild(Operation):
    """The records of one branch; the `number` after the last predicate is the rest."""

    kind: ClassVar[str] = "BRANCHCHILD"
    number: int


@dataclass(frozen=True, eq=False)
class Merge(Operation):
    kind: ClassVar[str] = "MERGE"


@dataclass(frozen=True, eq=False)
class ToStream(Operation):
    kind: ClassVar[str] = "TOSTREAM"


@dataclass(frozen=True, eq=False)
class ToTable(Operation):
    kind: ClassVar[str] = "TOTABLE"


@dataclass(frozen=True, eq=False)
class JoinGlobal(Operation):
    """Joins with a table that every task reads whole. Its parents: the stream, then the table."""

    kind: ClassVar[str] = "JOIN"
    how: str
    on: Function | None
    joiner: Function
    value: Serde | None
    python: bool
