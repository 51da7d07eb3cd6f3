"""Operations with state, done to frames by the functions in operators/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from ottla.streams.durations import in_words
from ottla.streams.errors import BadTopology
from ottla.streams.lowering.columns import Fields, column
from ottla.streams.lowering.dead import DeadLetters
from ottla.streams.lowering.frame import Frame
from ottla.streams.operators import windows
from ottla.streams.plan.plan import working_node
from ottla.streams.serdes import Serde, Windowed
from ottla.streams.topology import stateful as keep
from ottla.streams.topology.operation import Operation
from ottla.streams.topology.topology import Node
from ottla.streams.windows import Session, Window


@dataclass(frozen=True)
class Lowered:
    """`mode` is Spark's output mode."""

    frame: Frame
    mode: str


@dataclass(frozen=True)
class Root:
    """An operation with state and what it works on."""

    node: Node
    inputs: list[Frame]
    final: bool
    """Only results that will not change any more."""
    spark: SparkSession
    options: Mapping[str, str]
    dead: DeadLetters

    @property
    def input(self) -> Frame:
        return self.inputs[0]


def lower_root(
    root: Node,
    inputs: list[Frame],
    spark: SparkSession,
    options: Mapping[str, str],
    dead: DeadLetters,
) -> Lowered:
    worker = working_node(root)
    try:
        given = Root(worker, inputs, worker is not root, spark, options, dead)
        return _lower(worker.operation, given)
    except ValueError as error:
        raise BadTopology(f"{root.name}: {error}") from error


@singledispatch
def _lower(operation: Operation, root: Root) -> Lowered:
    raise BadTopology(f"{operation.kind} is no operation with state: {root.node.name}")


@_lower.register
def _(operation: keep.Aggregate, root: Root) -> Lowered:
    frame, window = root.input, operation.window
    wanted = F.count(F.lit(1)) if operation.columns is None else operation.columns(frame.record)
    data = windows.aggregate(frame.data, _aggregates(wanted), window=window, final=root.final)
    made = Frame(data, _key_serde(frame, window, root.node), None)
    if operation.value is not None:
        made = made.with_value(F.col("value"), operation.value)
    return Lowered(made, windows.output_mode(window, root.final))


def _aggregates(wanted: Any) -> Column | dict[str, Column]:
    if isinstance(wanted, Mapping):
        return {name: column(part) for name, part in wanted.items()}
    if isinstance(wanted, Fields):
        raise BadTopology("agg() needs aggregates, such as F.sum(r.value.amount), not records")
    return column(wanted)


def _key_serde(frame: Frame, window: Window | None, node: Node) -> Serde | None:
    if window is None:
        return frame.key
    inner, _ = frame.serdes(node.name)
    return Windowed(inner, None if isinstance(window, Session) else in_words(window.size_ms))
