"""The columns that operators know, and durations as Spark reads them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

HEADERS = "array<struct<key:string,value:binary>>"
PLACE = {"__topic": "string", "__partition": "int", "__offset": "bigint"}
"""The origin of a record. Offsets order the records of a key."""

ERROR_KIND, ERROR, OLD = "__error_kind", "__error", "__old"
"""Columns on results of Python functions that may fail: see `engine.Columns.errors`."""


def with_place(frame: DataFrame) -> DataFrame:
    """Add the columns with the origin of records; null if unknown."""
    missing = {name: kind for name, kind in PLACE.items() if name not in frame.columns}
    return frame.withColumns({name: F.lit(None).cast(kind) for name, kind in missing.items()})


def watermarked(frame: DataFrame, grace_ms: int) -> DataFrame:
    """Stream time is the newest timestamp seen minus `grace_ms`, at the end of the last batch."""
    return frame.withWatermark("timestamp", interval(grace_ms))


def interval(ms: int) -> str:
    return f"{ms} milliseconds"


def windowed_key(key: Column, start: Column, end: Column) -> Column:
    """Return Kafka Streams' `Windowed`: the key of a result that belongs to a window."""
    window = F.struct(start.alias("start"), end.alias("end"))
    return F.struct(key.alias("key"), window.alias("window"))
