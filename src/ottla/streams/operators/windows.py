"""Aggregates by Spark itself: by key, or by key and window.

`aggregates` are Spark's aggregate columns: one, which is the value, or several by name, which are
the fields of a struct. In update mode a result comes with each batch that changed it, in append
mode (`final`) once, when its window has closed. Kafka Streams' rules hold: the result's timestamp
is that of its newest record; records without a key are skipped, and without windows also those
without a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructType

from ottla.streams.operators.folds import Collecting
from ottla.streams.operators.frames import interval, watermarked, windowed_key
from ottla.streams.windows import Hopping, Session, Sliding, Tumbling, Window

Aggregates = Column | Mapping[str, Column]

_ONE_MS = 1


def changed_windows(frame: DataFrame, window: Session | Sliding, **how: Any) -> DataFrame:
    """Return the windows that a batch changed, with all their records, for `aggregate_changed`.

    The value is an array of structs of `value` and `timestamp` (milliseconds), null for sessions
    that became part of others. All records of open windows are kept. `how`: see `reduce.How`.
    """
    from ottla.streams.operators.reduce import How, folded

    record = StructType().add("value", frame.schema["value"].dataType).add("timestamp", "long")
    return folded(frame, Collecting(), ArrayType(record), How(window=window, **how))


def aggregate_changed(batch: DataFrame, aggregates: Aggregates) -> DataFrame:
    """Aggregate changed windows. Only on the frame of one batch, inside foreachBatch."""
    records = batch.select("key", F.explode("value").alias("record"))
    rows = records.select(
        "key",
        F.col("record.value").alias("value"),
        F.timestamp_millis("record.timestamp").alias("timestamp"),
    )
    alive = rows.groupBy("key").agg(*_columns(aggregates)).select("key", "value", "timestamp")
    nothing = F.lit(None).cast(alive.schema["value"].dataType).alias("value")
    gone = batch.filter(F.col("value").isNull()).select("key", nothing, "timestamp")
    return gone.unionByName(alive)


def aggregate(
    frame: DataFrame, aggregates: Aggregates, *, window: Window | None = None, final: bool = False
) -> DataFrame:
    """Return `key`, `value`, `timestamp`; the key of a window is a struct of `key` and `window`.

    Use update mode, or with `final` append mode. Spark cannot group by sliding windows, nor by
    sessions while they are open: see `changed_windows`.
    """
    match window:
        case None:
            return _by_key(frame, aggregates)
        case Tumbling() | Hopping():
            return _by_time(frame, aggregates, window)
        case Session() if final:
            return _by_session(frame, aggregates, window)
    raise ValueError(
        f"Spark cannot aggregate columns by {window} itself: use changed_windows()"
        " and aggregate_changed()"
    )


def output_mode(window: Window | None, final: bool) -> str:
    """Return the output mode of the query that writes the result."""
    if final and window is None:
        raise ValueError("without windows a result is never final")
    return "append" if final else "update"


def _by_key(frame: DataFrame, aggregates: Aggregates) -> DataFrame:
    used = frame.filter(F.col("key").isNotNull() & F.col("value").isNotNull())
    return used.groupBy("key").agg(*_columns(aggregates)).select("key", "value", "timestamp")


def _by_time(frame: DataFrame, aggregates: Aggregates, window: Tumbling | Hopping) -> DataFrame:
    advance = window.advance_ms if isinstance(window, Hopping) else window.size_ms
    spans = F.window("timestamp", interval(window.size_ms), interval(advance))
    used = watermarked(frame.filter(F.col("key").isNotNull()), window.grace_ms)
    grouped = used.groupBy("key", spans.alias("window")).agg(*_columns(aggregates))
    start, end = F.col("window.start"), F.col("window.end")
    return grouped.select(windowed_key(F.col("key"), start, end).alias("key"), "value", "timestamp")


def _by_session(frame: DataFrame, aggregates: Aggregates, window: Session) -> DataFrame:
    """Spark's sessions end a gap after the last record and do not touch; Kafka's end with it."""
    gap = window.gap_ms + _ONE_MS
    spans = F.session_window("timestamp", interval(gap))
    used = watermarked(frame.filter(F.col("key").isNotNull()), window.grace_ms)
    grouped = used.groupBy("key", spans.alias("window")).agg(*_columns(aggregates))
    end = F.col("window.end") - F.expr(f"INTERVAL '{gap / 1000:.3f}' SECOND")
    key = windowed_key(F.col("key"), F.col("window.start"), end)
    return grouped.select(key.alias("key"), "value", "timestamp")


def _columns(aggregates: Aggregates) -> list[Column]:
    newest = F.max("timestamp").alias("timestamp")
    if isinstance(aggregates, Column):
        return [aggregates.alias("value"), newest]
    fields = [column.alias(name) for name, column in aggregates.items()]
    return [F.struct(*fields).alias("value"), newest]
