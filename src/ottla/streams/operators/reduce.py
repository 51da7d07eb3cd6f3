"""Aggregates with Python functions: by key, or by key and window.

The functions get the records of a key in order. A result comes with each batch that changed it
(`every`: with each record), or with `final` once, when its window has closed. Both are written in
update mode. As in Kafka Streams, records without a value are skipped, except in aggregates of
tumbling, hopping and session windows; records without a key are always skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from ottla.streams.operators.engine import BUCKETS, Columns, Input, run
from ottla.streams.operators.failures import Guard
from ottla.streams.operators.folds import Aggregating, Fold, Reducing
from ottla.streams.operators.frames import OLD, interval, windowed_key
from ottla.streams.operators.key_fold import KeyFold
from ottla.streams.operators.operator import Operator
from ottla.streams.operators.packing import Codec
from ottla.streams.operators.sessions import SessionFold
from ottla.streams.operators.sliding import SlidingFold
from ottla.streams.windows import Hopping, Session, Sliding, Tumbling, Window


@dataclass(frozen=True)
class How:
    """`node` is named in errors. `set_aside`: a record on which the function raises becomes a row
    with `__error_kind`, `__error` and `__old` (its key and value), and the query goes on."""

    window: Window | None = None
    final: bool = False
    every: bool = False
    node: str = "aggregate"
    set_aside: bool = False
    buckets: int = BUCKETS


def reduce(
    frame: DataFrame, function: Callable[[Any, Any], Any], how: How | None = None
) -> DataFrame:
    """Combine two values with `function(old, new)`. It gets rows as dicts."""
    how = how or How(node="reduce")
    value = frame.schema["value"].dataType
    fold = Reducing(function, Codec(value, "the result"))
    return folded(frame.filter(F.col("value").isNotNull()), fold, value, how)


def aggregate(
    frame: DataFrame,
    initial: Callable[[], Any],
    function: Callable[[Any, Any, Any], Any],
    kind: DataType,
    how: How | None = None,
    *,
    merger: Callable[[Any, Any, Any], Any] | None = None,
) -> DataFrame:
    """`function(key, value, aggregate)` returns the new aggregate of type `kind`; None deletes it.

    `merger(key, first, second)` merges the aggregates of two sessions that met.
    """
    how = how or How()
    if isinstance(how.window, Session) and merger is None:
        raise ValueError("sessions that meet are merged: aggregate() of sessions needs a merger")
    value = Codec(frame.schema["value"].dataType, "value")
    key_of = key_reader(frame.schema["key"].dataType, how.window)
    fold = Aggregating(initial, function, merger, key_of, value, Codec(kind, "the result"))
    if how.window is None:
        frame = frame.filter(F.col("value").isNotNull())
    return folded(frame, fold, kind, how)


def key_reader(kind: DataType, window: Window | None) -> Callable[[str], Any]:
    """Return a reader of keys: functions get the key itself, without its window."""
    if not isinstance(window, Tumbling | Hopping):
        return Codec(kind, "key").loads
    windowed = Codec(StructType().add("key", kind), "key")
    return lambda text: windowed.loads(text)["key"]


def folded(frame: DataFrame, fold: Fold, kind: DataType, how: How) -> DataFrame:
    """Return `key`, `value`, `timestamp`, `headers` and the origin of the last record."""
    if how.final and how.window is None:
        raise ValueError("without windows a result is never final")
    guard = Guard(how.node, how.set_aside)
    used = frame.filter(F.col("key").isNotNull())
    if isinstance(how.window, Sliding):
        used = used.filter(F.col("value").isNotNull())
    due = None
    if isinstance(how.window, Tumbling | Hopping):
        used, due = _in_windows(used, how.window)
    operator = _operator(how, fold, guard)
    grace = None if how.window is None else how.window.grace_ms
    text = run([Input(used, due=due)], operator, grace_ms=grace, buckets=how.buckets)
    return _results(text, frame.schema, used.schema["key"].dataType, kind, how)


def _operator(how: How, fold: Fold, guard: Guard) -> Operator:
    match how.window:
        case Session(gap_ms=gap):
            return SessionFold(gap, fold, guard, every=how.every, final=how.final)
        case Sliding(difference_ms=difference):
            return SlidingFold(difference, fold, guard, every=how.every, final=how.final)
    windowed = how.window is not None
    return KeyFold(fold, guard, windowed=windowed, every=how.every, final=how.final)


def _in_windows(frame: DataFrame, window: Tumbling | Hopping) -> tuple[DataFrame, Column]:
    """Return a row for each window that a record is in, and when that window ends."""
    advance = window.advance_ms if isinstance(window, Hopping) else window.size_ms
    spans = F.window("timestamp", interval(window.size_ms), interval(advance))
    rows = frame.withColumn("__window", spans)
    start, end = F.col("__window.start"), F.col("__window.end")
    return rows.withColumn("key", windowed_key(F.col("key"), start, end)), end


def _results(
    text: DataFrame, given: StructType, packed_key: DataType, kind: DataType, how: How
) -> DataFrame:
    columns = Columns()
    key = columns.value("key", packed_key)
    if isinstance(how.window, Session | Sliding):
        key = windowed_key(key, columns.moment("start"), columns.moment("end"))
    shown = [key.alias("key"), columns.value("value", kind).alias("value"), *columns.usual()]
    if how.set_aside:
        shown += columns.errors(packed_key, given["value"].dataType)
    made = text.select(*shown)
    if how.set_aside and isinstance(how.window, Tumbling | Hopping):
        plain = F.struct(F.col(f"{OLD}.key.key").alias("key"), F.col(f"{OLD}.value").alias("value"))
        made = made.withColumn(OLD, F.when(F.col(OLD).isNotNull(), plain))
    return made
