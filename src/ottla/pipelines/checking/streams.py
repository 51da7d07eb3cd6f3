"""Checks an application of `ottla.streams` from its sources on: do its lambdas find their fields?

They are called as Spark's lowering calls them, with fake columns; the result of a lambda shows
which fields the next one has. Functions that are called record by record are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch
from pathlib import Path
from typing import Any, NamedTuple

from ottla.pipelines.checking.no_spark import no_spark
from ottla.pipelines.declared.schemas import InvalidSchema, Shape, parse_schema
from ottla.pipelines.errors import InvalidFile
from ottla.streams import App
from ottla.streams.errors import BadTopology
from ottla.streams.serdes import Json, Serde
from ottla.streams.topology import ends
from ottla.streams.topology import stateful as keep
from ottla.streams.topology import stateless as do
from ottla.streams.topology.operation import Function, Operation
from ottla.streams.topology.places import failing_place
from ottla.streams.topology.topology import Node


class Records(NamedTuple):
    """The fields of keys and values; None if there are none or they are unknown."""

    key: Shape = None
    value: Shape = None


def check_app(app: App, file: Path) -> None:
    """Raise InvalidFile with the line of the first missing field or column."""
    found: dict[Node, Records] = {}
    for node in app.topology:
        step = _Step(node, [found[one] for one in node.parents], file)
        found[node] = _after(node.operation, step)


class _Unsure(Exception):
    """A function that cannot be called without Spark, or does not return what it should."""


class _Step:
    def __init__(self, node: Node, given: list[Records], file: Path) -> None:
        self.node = node
        self.given = given
        self._file = file

    @property
    def first(self) -> Records:
        return self.given[0] if self.given else Records()

    def call(self, function: Function, *arguments: Callable[[], Any]) -> Any:
        """Return the result, or raise `_Unsure`; arguments are made inside `no_spark`."""
        from pyspark.errors import PySparkValueError

        columns: dict[str, Shape] = {
            "key": self.first.key,
            "value": self.first.value,
            **dict.fromkeys(("timestamp", "headers")),
        }
        try:
            with no_spark(columns):
                return function(*(one() for one in arguments))
        except BadTopology as error:
            self._fail(error, str(error))
        except PySparkValueError as error:
            if error.getCondition() != "CANNOT_CONVERT_COLUMN_INTO_BOOL":
                raise _Unsure from error
            self._fail(error, "conditions on columns are joined by & | ~, not by and, or, not")
        except Exception as error:
            raise _Unsure from error

    def on_record(self, function: Function | None, records: Records | None = None) -> Any:
        if function is None:
            return None
        return self.call(function, lambda: _record(records or self.first))

    def on_values(self, joiner: Function) -> Any:
        left, right = (one.value for one in self.given)
        return self.call(joiner, lambda: _part("left", left), lambda: _part("right", right))

    def _fail(self, error: Exception, problem: str) -> None:
        place = failing_place(error) or self.node.place
        code = f", in `{place.code}`" if place and place.code else ""
        # The running file may be a copy that the user does not know.
        is_own = place is None or Path(place.file).name == self._file.name
        shown = self._file if is_own or place is None else Path(place.file)
        raise InvalidFile(shown, place.line if place else None, "", f"{problem}{code}") from error


def _record(records: Records) -> Any:
    from pyspark.sql.types import NullType, StructType

    from ottla.streams.lowering.columns import ColumnRecord

    schema = StructType().add("key", _type(records.key)).add("value", _type(records.value))
    return ColumnRecord(schema.add("__topic", NullType()))


def _part(name: str, shape: Shape) -> Any:
    from pyspark.sql import functions as F

    from ottla.streams.lowering.columns import namespace

    return namespace(F.lit(name), _type(shape))


def _type(shape: Shape) -> Any:
    from pyspark.sql.types import NullType, StructType

    if shape is None:
        return NullType()
    struct = StructType()
    for name, inner in shape.items():
        struct = struct.add(name, _type(inner))
    return struct


def _shape(given: Any) -> Shape:
    """Return the shape of what a lambda returned."""
    from ottla.streams.lowering.columns import Fields

    if isinstance(given, Fields):
        return {name: _shape(given[name]) for name in given}
    if isinstance(given, Mapping):
        return {str(name): _shape(part) for name, part in given.items()}
    return None


def _of(serde: Serde | None, otherwise: Shape = None) -> Shape:
    if serde is None:
        return otherwise
    if not isinstance(serde, Json):
        return None
    try:
        return parse_schema(str(serde))
    except InvalidSchema:
        pass
    try:
        return parse_schema(f"row {serde}")["row"]
    except InvalidSchema:
        return None  # Spark will report it


def _after(operation: Operation, step: _Step) -> Records:
    try:
        with_columns: Records = _records_after(operation, step)
        return with_columns
    except _Unsure:
        return Records(_of(getattr(operation, "key", None)), _of(getattr(operation, "value", None)))


@singledispatch
def _records_after(_operation: Operation, step: _Step) -> Records:
    """Handle operations that change neither keys nor values."""
    return step.first if len(step.given) == 1 else Records()


@_records_after.register
def _(operation: ends.Source, step: _Step) -> Records:
    found = Records(_of(operation.key), _of(operation.value))
    step.on_record(operation.timestamp, found)
    return found


@_records_after.register
def _(operation: ends.GlobalSource, _step: _Step) -> Records:
    return Records(_of(operation.key), _of(operation.value))


@_records_after.register
def _(operation: do.Filter, step: _Step) -> Records:
    if not operation.python:
        step.on_record(operation.function)
    return step.first


@_records_after.register
def _(operation: do.Branch, step: _Step) -> Records:
    for predicate in () if operation.python else operation.predicates:
        step.on_record(predicate)
    return step.first


@_records_after.register
def _(operation: do.Map, step: _Step) -> Records:
    both = (None, None) if operation.python else step.on_record(operation.function)
    if not isinstance(both, tuple) or len(both) != 2:
        raise _Unsure
    return Records(_of(operation.key, _shape(both[0])), _of(operation.value, _shape(both[1])))


@_records_after.register
def _(operation: do.MapValues, step: _Step) -> Records:
    made = None if operation.python else step.on_record(operation.function)
    return Records(step.first.key, _of(operation.value, _shape(made)))


@_records_after.register
def _(operation: do.SelectKey, step: _Step) -> Records:
    made = None if operation.python else step.on_record(operation.function)
    return Records(_of(operation.key, _shape(made)), step.first.value)


@_records_after.register
def _(operation: do.FlatMap, step: _Step) -> Records:
    if not operation.python:
        step.on_record(operation.function)
    return Records(_of(operation.key), _of(operation.value))


@_records_after.register
def _(operation: do.FlatMapValues, step: _Step) -> Records:
    if not operation.python:
        step.on_record(operation.function)
    return Records(step.first.key, _of(operation.value))


@_records_after.register
def _(_operation: do.Merge, step: _Step) -> Records:
    return step.first if all(one == step.first for one in step.given) else Records()


@_records_after.register
def _(operation: do.JoinGlobal, step: _Step) -> Records:
    step.on_record(operation.on)
    return _joined(operation, step)


@_records_after.register(keep.JoinStreams)
@_records_after.register(keep.JoinTable)
@_records_after.register(keep.JoinTables)
def _joined(operation: Any, step: _Step) -> Records:
    made = None if operation.python else step.on_values(operation.joiner)
    return Records(step.first.key, _of(operation.value, _shape(made)))


@_records_after.register
def _(operation: keep.Aggregate, step: _Step) -> Records:
    made = step.on_record(operation.columns)
    key = step.first.key if operation.window is None else None
    return Records(key, _of(operation.value, _shape(made)))


@_records_after.register
def _(operation: keep.Reduce, step: _Step) -> Records:
    return Records(step.first.key if operation.window is None else None, step.first.value)


@_records_after.register
def _(operation: keep.Fold, step: _Step) -> Records:
    return Records(step.first.key if operation.window is None else None, _of(operation.value))


@_records_after.register
def _(operation: keep.TableAggregate, step: _Step) -> Records:
    return Records(step.first.key, _of(operation.value))


@_records_after.register
def _(operation: keep.Changes, step: _Step) -> Records:
    both = step.on_record(operation.function)
    if not isinstance(both, tuple) or len(both) != 2:
        raise _Unsure
    return Records(_of(operation.key, _shape(both[0])), _of(operation.value, _shape(both[1])))


@_records_after.register
def _(operation: keep.Process, step: _Step) -> Records:
    return Records(_of(operation.key, step.first.key), _of(operation.value))
