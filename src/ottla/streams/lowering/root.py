"""An operation with state while it is lowered: its inputs, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ottla.streams.lowering.dead import DeadLetters, Failure
from ottla.streams.lowering.frame import Frame
from ottla.streams.operators.frames import ERROR, ERROR_KIND, OLD
from ottla.streams.stores.entry import StateForm
from ottla.streams.topology.topology import Node

Finish = Callable[[Frame, DeadLetters], Frame]
"""Applied to each batch of results, outside Spark's operator; may set records aside."""


@dataclass(frozen=True)
class Root:
    node: Node
    inputs: list[Frame]
    final: bool
    """True if only results that will not change any more are wanted."""
    spark: SparkSession
    options: Mapping[str, str] = field(repr=False)
    sets_aside: bool
    """True if records that fail go to a topic of dead letters."""

    @property
    def input(self) -> Frame:
        return self.inputs[0]


@dataclass(frozen=True)
class Lowered:
    """`mode` is Spark's output mode; `states` say how its stores are read."""

    frame: Frame
    mode: str
    finish: Finish | None = None
    states: Mapping[str, StateForm] = field(default_factory=dict)


def setting_aside(given: Frame, made: Frame, node: str) -> Finish | None:
    """Return a step that separates failed records of Python functions from the results."""
    if ERROR_KIND not in made.data.columns:
        return None
    key, value = given.serdes(node)

    def finish(frame: Frame, dead: DeadLetters) -> Frame:
        failure = Failure(F.col(ERROR_KIND), F.col(ERROR))
        old = key.encode(F.col(f"{OLD}.key")), value.encode(F.col(f"{OLD}.value"))
        good = dead.part(frame.data, failure, node, *old)
        return frame.having(good.drop(ERROR_KIND, ERROR, OLD))

    return finish
