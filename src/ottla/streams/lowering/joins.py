"""Lowers joins, and the changes of a table, to frames."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.streams.lowering.columns import column, namespace, pair
from ottla.streams.lowering.dead import DeadLetters
from ottla.streams.lowering.frame import Frame
from ottla.streams.lowering.per_record import call
from ottla.streams.lowering.root import Finish, Lowered, Root
from ottla.streams.lowering.values import PythonRecord
from ottla.streams.operators import joins, tables
from ottla.streams.serdes import Serde
from ottla.streams.topology import stateful as keep
from ottla.streams.topology.operation import Function

_Join = keep.JoinStreams | keep.JoinTable | keep.JoinTables


def streams(operation: keep.JoinStreams, root: Root) -> Lowered:
    left, right = (frame.data for frame in root.inputs)
    pairs = joins.stream_stream(left, right, operation.window, how=operation.how)
    return _lowered(operation, root, pairs, "append")


def stream_with_table(operation: keep.JoinTable, root: Root) -> Lowered:
    stream, table = (frame.data for frame in root.inputs)
    return _lowered(operation, root, joins.stream_table(stream, table, how=operation.how), "update")


def tables_together(operation: keep.JoinTables, root: Root) -> Lowered:
    left, right = (frame.data for frame in root.inputs)
    return _lowered(operation, root, joins.table_table(left, right, how=operation.how), "update")


def _lowered(operation: _Join, root: Root, pairs: DataFrame, mode: str) -> Lowered:
    key = root.input.key
    if operation.python:
        assert operation.value is not None
        finish = joined_in_python(operation.joiner, operation.value, root.node.name)
        return Lowered(Frame(joins.joined(pairs, pair_of), key, None), mode, finish)
    made = Frame(joined_in_columns(pairs, operation.joiner), key, None)
    if operation.value is not None:
        made = made.with_value(F.col("value"), operation.value)
    return Lowered(made, mode)


def pair_of(left: Column, right: Column) -> Column:
    return F.struct(left.alias("left"), right.alias("right"))


def joined_in_columns(pairs: DataFrame, joiner: Function) -> DataFrame:
    schema = pairs.schema

    def made(left: Column, right: Column) -> Column:
        mine = namespace(left, schema["left"].dataType)
        theirs = namespace(right, schema["right"].dataType)
        return column(joiner(mine, theirs))

    return joins.joined(pairs, made)


def joined_in_python(joiner: Function, value: Serde, node: str) -> Finish:
    """Call a Python joiner outside the operation with state, so that single records may fail."""

    def together(record: PythonRecord) -> list[tuple[Any, Any]]:
        pair = record.value
        return [(record.key, None if pair is None else joiner(pair.left, pair.right))]

    def finish(frame: Frame, dead: DeadLetters) -> Frame:
        key, _ = frame.serdes(node)
        return call(frame, together, node, dead, key, value)

    return finish


def changes(operation: keep.Changes, root: Root) -> Lowered:
    """Emit the old and the new value of each change, each under its new key."""
    frame = root.input
    schema = frame.data.schema
    kinds = schema["key"].dataType, schema["value"].dataType

    def grouper(key: Column, value: Column) -> tuple[Column, Column]:
        row = _Row(namespace(key, kinds[0]), namespace(value, kinds[1]))
        new_key, new_value = pair(operation.function(row), "group_by of a table")
        return _cast(new_key, operation.key), _cast(new_value, operation.value)

    data = tables.regrouped(tables.changes(frame.data), grouper)
    return Lowered(Frame(data, operation.key, None), "update")


class _Row:
    """The `r` of a table's `group_by`."""

    def __init__(self, key: Any, value: Any) -> None:
        self.key = key
        self.value = value


def _cast(made: Column, serde: Serde | None) -> Column:
    return made if serde is None else made.cast(serde.spark_type())
