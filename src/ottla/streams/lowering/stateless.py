"""Lowers operations on single records to frames."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce, singledispatch
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.streams.errors import BadTopology
from ottla.streams.lowering.columns import column, pair, pairs
from ottla.streams.lowering.dead import DeadLetters
from ottla.streams.lowering.frame import COLUMNS, Frame
from ottla.streams.lowering.mistakes import mistakes_of
from ottla.streams.lowering.per_record import Expand, call
from ottla.streams.lowering.values import PythonRecord
from ottla.streams.serdes import Int, Serde
from ottla.streams.topology import stateless as do
from ottla.streams.topology.operation import Operation
from ottla.streams.topology.topology import Node

_BRANCH = "__branch"


class Step:
    """A node and the records that reached it."""

    def __init__(self, node: Node, frame: Frame, dead: DeadLetters) -> None:
        self.node = node
        self.frame = frame
        self._dead = dead

    def per_record(self, expand: Expand, key: Serde | None, value: Serde | None) -> Frame:
        """Call a function per record; a serde of None stays as it is."""
        had = self.frame.serdes(self.node.name)
        new = (key or had[0], value or had[1])
        return call(self.frame, expand, self.node.name, self._dead, *new)


def lower(step: Step) -> Frame:
    with mistakes_of(step.node, step.frame.data):
        return _lower(step.node.operation, step)


@singledispatch
def _lower(operation: Operation, step: Step) -> Frame:
    raise BadTopology(f"{operation.kind} is no operation on single records: {step.node.name}")


@_lower.register
def _(operation: do.Filter, step: Step) -> Frame:
    if operation.python:
        return step.per_record(_keeping(operation, step.node.table), None, None)
    frame = step.frame
    holds = _truth(operation.function(frame.record))
    wanted = ~holds if operation.negated else holds
    if step.node.table:
        return frame.with_value(F.when(wanted, F.col("value")), frame.value)
    return frame.having(frame.data.filter(wanted))


def _keeping(operation: do.Filter, table: bool) -> Expand:
    function, negated = operation.function, operation.negated

    def keep(record: PythonRecord) -> list[tuple[Any, Any]]:
        if table and record.value is None:
            return [(record.key, None)]
        if bool(function(record)) is not negated:
            return [(record.key, record.value)]
        return [(record.key, None)] if table else []

    return keep


@_lower.register
def _(operation: do.Map, step: Step) -> Frame:
    function = operation.function
    if operation.python:
        return step.per_record(lambda r: [function(r)], operation.key, operation.value)
    both = pair(function(step.frame.record), "map")
    return step.frame.with_both(both, operation.key, operation.value)


@_lower.register
def _(operation: do.MapValues, step: Step) -> Frame:
    function, table = operation.function, step.node.table
    if operation.python:
        return step.per_record(_mapping(function, table), None, operation.value)
    mapped = column(function(step.frame.record))
    if table:
        mapped = F.when(F.col("value").isNotNull(), mapped)
    return step.frame.with_value(mapped, operation.value)


def _mapping(function: Callable[[Any], Any], table: bool) -> Expand:
    def mapping(record: PythonRecord) -> list[tuple[Any, Any]]:
        deleted = table and record.value is None
        return [(record.key, None if deleted else function(record))]

    return mapping


@_lower.register
def _(operation: do.FlatMap, step: Step) -> Frame:
    function = operation.function
    if operation.python:
        return step.per_record(lambda r: list(function(r)), operation.key, operation.value)
    data = step.frame.data.withColumn("__pair", F.explode(pairs(function(step.frame.record))))
    both = (F.col("__pair.key"), F.col("__pair.value"))
    made = Frame(data, None, None).with_both(both, operation.key, operation.value)
    return made.having(made.data.drop("__pair"))


@_lower.register
def _(operation: do.FlatMapValues, step: Step) -> Frame:
    function = operation.function
    if operation.python:

        def expand(record: PythonRecord) -> list[tuple[Any, Any]]:
            return [(record.key, value) for value in function(record)]

        return step.per_record(expand, None, operation.value)
    frame = step.frame
    data = frame.data.withColumn("__item", F.explode(column(function(frame.record))))
    made = frame.having(data).with_value(F.col("__item"), operation.value)
    return made.having(made.data.drop("__item"))


@_lower.register
def _(operation: do.SelectKey, step: Step) -> Frame:
    function = operation.function
    if operation.python:
        return step.per_record(lambda r: [(function(r), r.value)], operation.key, None)
    return step.frame.with_key(column(function(step.frame.record)), operation.key)


@_lower.register
def _(operation: do.Peek, step: Step) -> Frame:
    function = operation.function

    def look(record: PythonRecord) -> list[tuple[Any, Any]]:
        function(record)
        return [(record.key, record.value)]

    return step.per_record(look, None, None)


@_lower.register
def _(operation: do.Branch, step: Step) -> Frame:
    frame, count = step.frame, len(operation.predicates)
    if operation.python:
        return _branch_in_python(operation, step)
    number = F.lit(count)
    for index in reversed(range(count)):
        holds = _truth(operation.predicates[index](frame.record))
        number = F.when(holds, F.lit(index)).otherwise(number)
    return frame.having(frame.data.withColumn(_BRANCH, number))


def _branch_in_python(operation: do.Branch, step: Step) -> Frame:
    """Choose the branch in Python. A called function returns keys and values, so the number of the
    branch travels as the key of a copy."""
    predicates, count = operation.predicates, len(operation.predicates)

    def choose(record: PythonRecord) -> list[tuple[Any, Any]]:
        chosen = (index for index, holds in enumerate(predicates) if holds(record))
        return [(next(chosen, count), record.value)]

    copied = step.frame.having(step.frame.data.withColumn("__key", F.col("key")))
    chosen = Step(step.node, copied, step._dead).per_record(choose, Int(), None)
    data = chosen.data.withColumns({_BRANCH: F.col("key"), "key": F.col("__key")}).drop("__key")
    return step.frame.having(data)


@_lower.register
def _(operation: do.BranchChild, step: Step) -> Frame:
    data = step.frame.data
    return step.frame.having(data.filter(F.col(_BRANCH) == operation.number).drop(_BRANCH))


@_lower.register
def _(_: do.ToStream | do.ToTable, step: Step) -> Frame:
    return step.frame


def merge(node: Node, frames: list[Frame]) -> Frame:
    """Merge frames, whose keys and values must have the same types."""
    first = frames[0]
    for other in frames[1:]:
        for name in ("key", "value"):
            mine, theirs = (one.data.schema[name].dataType for one in (first, other))
            if mine.simpleString() != theirs.simpleString():
                raise BadTopology(
                    f"{node.name}: {name}s are {mine.simpleString()} in one stream and"
                    f" {theirs.simpleString()} in another; map them to the same before merging"
                )
    together = reduce(DataFrame.unionByName, (frame.data.select(*COLUMNS) for frame in frames))
    return first.having(together)


def _truth(given: Any) -> Column:
    """Convert to a boolean column; null becomes false."""
    return F.coalesce(column(given).cast("boolean"), F.lit(False))
