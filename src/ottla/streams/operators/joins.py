"""Joins. Each returns the columns `key`, `left`, `right` (the values), `timestamp` and `headers`.

`joined` then makes the value of a pair with an expression of Spark's. As in Kafka Streams, records
without a value do not take part. Neither do records without a key, except on the sides that a left
or outer join keeps: there they come out without a partner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.streams.operators.engine import BUCKETS, Columns, Input, run
from ottla.streams.operators.frames import HEADERS, watermarked
from ottla.streams.operators.pairs import LEFT, RIGHT, StreamTable, TableTable
from ottla.streams.windows import JoinWindow

GONE = "__gone"

_SPARK = {"inner": "inner", "left": "left_outer", "outer": "full_outer"}


def joined(pairs: DataFrame, joiner: Callable[[Column, Column], Column]) -> DataFrame:
    """Make `value` of `left` and `right`; null if a pair of tables is gone."""
    value = joiner(F.col("left"), F.col("right"))
    if GONE in pairs.columns:
        value = F.when(~F.col(GONE), value)
    return pairs.withColumn("value", value).drop("left", "right", GONE)


def stream_stream(
    left: DataFrame, right: DataFrame, window: JoinWindow, *, how: str = "inner"
) -> DataFrame:
    """Two streams in a window, by Spark itself. Write it in append mode.

    A record may be late by grace plus the longer side of the window; later records are dropped. A
    record without a partner comes out when no partner can come any more.
    """
    _check(how, _SPARK)
    late_ms = window.grace_ms + max(window.before_ms, window.after_ms)
    one, other = _side(left, "left", late_ms), _side(right, "right", late_ms)
    if how != "outer":
        other = other.filter(F.col("right_key").isNotNull())
    if how == "inner":
        one = one.filter(F.col("left_key").isNotNull())
    close = (
        (_meeting("left", how) == _meeting("right", how))
        & (F.col("right_time") >= F.col("left_time") - _interval(window.before_ms))
        & (F.col("right_time") <= F.col("left_time") + _interval(window.after_ms))
    )
    return one.join(other, close, _SPARK[how]).select(
        F.coalesce("left_key", "right_key").alias("key"),
        "left",
        "right",
        F.greatest("left_time", "right_time").alias("timestamp"),
        F.coalesce("left_headers", "right_headers").alias("headers"),
    )


def _meeting(side: str, how: str) -> Column:
    """Return the key to join by: in an outer join Spark treats two null keys as equal."""
    key = F.col(f"{side}_key")
    if how != "outer":
        return key
    return F.struct(key.alias("key"), F.when(key.isNull(), side).otherwise("").alias("side"))


def _side(frame: DataFrame, name: str, late_ms: int) -> DataFrame:
    headers = F.col("headers") if "headers" in frame.columns else F.lit(None).cast(HEADERS)
    return (
        watermarked(frame.filter(F.col("value").isNotNull()), late_ms)
        .withColumnRenamed("timestamp", f"{name}_time")
        .select(
            F.col("key").alias(f"{name}_key"),
            F.col("value").alias(name),
            f"{name}_time",
            headers.alias(f"{name}_headers"),
        )
    )


def _interval(ms: int) -> Column:
    return F.expr(f"INTERVAL '{ms / 1000:.3f}' SECOND")


def stream_table(
    stream: DataFrame, table: DataFrame, *, how: str = "inner", buckets: int = BUCKETS
) -> DataFrame:
    """Join each record of a stream with the newest row of a table for its key. Use update mode.

    Within a batch both are ordered by timestamp, the table first on ties. In a left join a record
    without a key comes out without a partner.
    """
    _check(how, ("inner", "left"))
    has_key = F.col("key").isNotNull()
    _same_keys(stream, table)
    # Records without a value are dropped later: until then they take part in the order.
    inputs = [
        Input(stream if how == "left" else stream.filter(has_key), LEFT, headers=True),
        Input(table.filter(has_key), RIGHT),
    ]
    text = run(inputs, StreamTable(how), buckets=buckets)
    return _pairs(text, stream, table, headers=True)


def table_table(
    left: DataFrame,
    right: DataFrame,
    *,
    how: str = "inner",
    every: bool = False,
    buckets: int = BUCKETS,
) -> DataFrame:
    """Join two tables into a changelog of pairs; `__gone` if a pair is gone. Use update mode.

    A key has at most one result per batch, or with `every` one for each change.
    """
    _check(how, _SPARK)
    _same_keys(left, right)
    has_key = F.col("key").isNotNull()
    inputs = [Input(left.filter(has_key), LEFT), Input(right.filter(has_key), RIGHT)]
    text = run(inputs, TableTable(how, every=every), buckets=buckets)
    return _pairs(text, left, right, headers=False)


def _pairs(text: DataFrame, left: DataFrame, right: DataFrame, *, headers: bool) -> DataFrame:
    columns = Columns()
    return text.select(
        columns.value("key", left.schema["key"].dataType).alias("key"),
        columns.value("value", left.schema["value"].dataType).alias("left"),
        columns.value("other", right.schema["value"].dataType).alias("right"),
        columns.gone.alias(GONE),
        *columns.usual(headers),
    )


def _same_keys(left: DataFrame, right: DataFrame) -> None:
    one, other = left.schema["key"].dataType, right.schema["key"].dataType
    if one.simpleString() != other.simpleString():
        raise ValueError(
            f"keys of type {one.simpleString()} on the left and {other.simpleString()} on the right"
            " never meet: give both sides the same key"
        )


def _check(how: str, known: Iterable[str]) -> None:
    if how not in tuple(known):
        names = ", ".join(tuple(known))
        raise ValueError(f"how is {how!r}: it must be one of {names}")
