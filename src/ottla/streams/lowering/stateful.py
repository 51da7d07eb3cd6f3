"""Lowers operations with state to frames, with the functions in operators/."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ottla.durations import in_words
from ottla.streams.errors import BadTopology
from ottla.streams.lowering import joins
from ottla.streams.lowering.columns import Fields, column
from ottla.streams.lowering.dead import DeadLetters
from ottla.streams.lowering.frame import Frame, complete
from ottla.streams.lowering.mistakes import mistakes_of
from ottla.streams.lowering.processing import process
from ottla.streams.lowering.root import Lowered, Root, setting_aside
from ottla.streams.lowering.values import python_value
from ottla.streams.operators import reduce, suppress, tables, windows
from ottla.streams.operators.windows import Aggregates
from ottla.streams.plan.plan import working_node
from ottla.streams.serdes import Serde, Windowed
from ottla.streams.stores.native import NativeState
from ottla.streams.stores.packed import PackedState
from ottla.streams.topology import stateful as keep
from ottla.streams.topology.operation import Operation
from ottla.streams.topology.topology import Node
from ottla.streams.windows import Session, Sliding, Window


def lower_root(
    root: Node,
    inputs: list[Frame],
    spark: SparkSession,
    options: Mapping[str, str],
    sets_aside: bool,
) -> Lowered:
    worker = working_node(root)
    with mistakes_of(worker, *(frame.data for frame in inputs)):
        given = Root(worker, inputs, worker is not root, spark, options, sets_aside)
        return _lower(worker.operation, given)


@singledispatch
def _lower(operation: Operation, root: Root) -> Lowered:
    raise BadTopology(f"{operation.kind} is no operation with state: {root.node.name}")


@_lower.register
def _(operation: keep.Aggregate, root: Root) -> Lowered:
    frame, window = root.input, operation.window
    wanted = F.count(F.lit(1)) if operation.columns is None else operation.columns(frame.record)
    aggregates = _aggregates(wanted)
    if isinstance(window, Sliding) or (isinstance(window, Session) and not root.final):
        return _changed_windows(operation, root, window, aggregates)
    data = windows.aggregate(frame.data, aggregates, window=window, final=root.final)
    made = Frame(data, _key_serde(frame, window, root.node), None)
    if operation.value is not None:
        made = made.with_value(F.col("value"), operation.value)
    mode = windows.output_mode(window, root.final)
    return Lowered(made, mode, states={operation.store: NativeState.of(aggregates)})


def _changed_windows(
    operation: keep.Aggregate, root: Root, window: Session | Sliding, aggregates: Aggregates
) -> Lowered:
    """Lower windows that Spark cannot group by: keep their records, and aggregate per batch."""
    frame = root.input
    data = windows.changed_windows(
        frame.data, window, final=root.final, node=root.node.name, set_aside=False
    )
    key = _key_serde(frame, window, root.node)

    def finish(changed: Frame, _: DeadLetters) -> Frame:
        made = Frame(complete(windows.aggregate_changed(changed.data, aggregates)), key, None)
        return made if operation.value is None else made.with_value(F.col("value"), operation.value)

    return Lowered(Frame(data, key, None), "update", finish)


def _aggregates(wanted: Any) -> Aggregates:
    if isinstance(wanted, Mapping):
        return {name: column(part) for name, part in wanted.items()}
    if isinstance(wanted, Fields):
        raise BadTopology("agg() needs aggregates, such as F.sum(r.value.amount), not records")
    return column(wanted)


@_lower.register
def _(operation: keep.Reduce, root: Root) -> Lowered:
    frame, function = root.input, operation.function

    def reducing(old: Any, new: Any) -> Any:
        return function(python_value(old), python_value(new))

    data = reduce.reduce(frame.data, reducing, _how(operation.window, root))
    made = Frame(data, _key_serde(frame, operation.window, root.node), frame.value)
    return _in_python(made, root, operation.window)


@_lower.register
def _(operation: keep.Fold, root: Root) -> Lowered:
    frame = root.input
    data = reduce.aggregate(
        frame.data,
        _starting(operation.initial),
        _with_rows(operation.function),
        operation.value.spark_type(),
        _how(operation.window, root),
        merger=operation.merger and _with_rows(operation.merger),
    )
    made = Frame(data, _key_serde(frame, operation.window, root.node), operation.value)
    return _in_python(made, root, operation.window)


@_lower.register
def _(operation: keep.TableAggregate, root: Root) -> Lowered:
    frame = root.input
    data = tables.aggregate_table(
        frame.data,
        _starting(operation.initial),
        _with_rows(operation.adder),
        _with_rows(operation.subtractor),
        operation.value.spark_type(),
        node=root.node.name,
        set_aside=root.sets_aside,
    )
    return _in_python(Frame(data, frame.key, operation.value), root, None)


def _in_python(made: Frame, root: Root, window: Window | None) -> Lowered:
    key, value = root.input.data.schema["key"].dataType, made.data.schema["value"].dataType
    finish = setting_aside(root.input, made, root.node.name)
    states = {store: PackedState(key, value, window) for store in root.node.operation.stores}
    return Lowered(made, "update", finish, states)


@_lower.register
def _(operation: keep.Changes, root: Root) -> Lowered:
    return joins.changes(operation, root)


@_lower.register
def _(operation: keep.SuppressUntilTime, root: Root) -> Lowered:
    frame = root.input
    return Lowered(
        frame.having(suppress.until_time_limit(frame.data, operation.limit_ms)), "update"
    )


@_lower.register
def _(operation: keep.Process, root: Root) -> Lowered:
    return process(operation, root)


@_lower.register
def _(operation: keep.JoinStreams, root: Root) -> Lowered:
    return joins.streams(operation, root)


@_lower.register
def _(operation: keep.JoinTable, root: Root) -> Lowered:
    return joins.stream_with_table(operation, root)


@_lower.register
def _(operation: keep.JoinTables, root: Root) -> Lowered:
    return joins.tables_together(operation, root)


def _how(window: Window | None, root: Root) -> reduce.How:
    return reduce.How(
        window=window, final=root.final, node=root.node.name, set_aside=root.sets_aside
    )


def _starting(initial: Any) -> Callable[[], Any]:
    """Return a function for the initial value, so that keys do not share a list or dict."""
    return initial if callable(initial) else lambda: initial


def _with_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass rows as in all other functions: with their fields as attributes."""
    return lambda *given: function(*map(python_value, given))


def _key_serde(frame: Frame, window: Window | None, node: Node) -> Serde | None:
    if window is None:
        return frame.key
    inner, _ = frame.serdes(node.name)
    return Windowed(inner, None if isinstance(window, Session) else in_words(window.size_ms))
