"""The columns that operators know, and lengths of time as Spark reads them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

HEADERS = "array<struct<key:string,value:binary>>"
PLACE = {"__topic": "string", "__partition": "int", "__offset": "bigint"}
"""Where a record came from. Offsets order what has the same key."""

ERROR_KIND, ERROR, OLD = "__error_kind", "__error", "__old"
"""On results of Python functions that may fail: see `engine.Columns.errors`."""


def with_place(frame: DataFrame) -> DataFrame:
    """With the columns that tell where records came from, null where nobody knows."""
    missing = {name: kind for name, kind in PLACE.items() if name not in frame.columns}
    return frame.withColumns({name: F.lit(None).cast(kind) for name, kind in missing.items()})


def watermarked(frame: DataFrame, grace_ms: int) -> DataFrame:
    """Stream time is the newest timestamp seen less `grace_ms`, as of the end of the last batch."""
    return frame.withWatermark("timestamp", interval(grace_ms))


def interval(ms: int) -> str:
    return f"{ms} milliseconds"


def windowed_key(key: Column, start: Column, end: Column) -> Column:
    """Kafka Streams' `Windowed`: the key of a result that belongs to a window."""
    window = F.struct(start.alias("start"), end.alias("end"))
    return F.struct(key.alias("key"), window.alias("window"))
