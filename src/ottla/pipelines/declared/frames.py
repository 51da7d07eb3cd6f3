"""Topics and files as frames: runs `source:` and `sink:` on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.pipelines.declared.declaration import (
    ORIGIN_COLUMNS,
    RAW_COLUMNS,
    FileSource,
    TopicSink,
    TopicSource,
)
from ottla.pipelines.declared.sources import reader_options
from ottla.pipelines.progress import ROWS_IN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WRITTEN_COLUMNS = ("key", "value", "headers", "timestamp")
"""Columns of a raw frame that are written; topic, partition and offset are its origin."""
_PARSED, _CORRUPT = "__parsed", "__corrupt"
SHOWN_CHARACTERS = 200


def read_topics(
    spark: SparkSession,
    source: TopicSource,
    connection: Mapping[str, str],
    between: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the stream, or with `between` (offset options) the records there as a batch."""
    options = reader_options(source, dict(connection))
    if between is None:
        return spark.readStream.format("ottla").options(**options).load()
    kept = {name: value for name, value in options.items() if name not in _STREAMING}
    return spark.read.format("ottla").options(**{**kept, **between}).load()


_STREAMING = {
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "subscribe"),
    *("subscribePattern", "assign", "maxOffsetsPerTrigger", "minOffsetsPerTrigger"),
    "maxTriggerDelay",
}


def read_files(spark: SparkSession, source: FileSource) -> DataFrame:
    reader = spark.read.format(source.format).options(**source.options)
    return (reader.schema(source.schema) if source.schema else reader).load(source.path)


def counted(frame: DataFrame, source: TopicSource) -> DataFrame:
    """Count the rows of a source. With dead letters Spark reads it twice, once for good and once
    for bad records, and would count its rows twice."""
    from pyspark.sql import functions as F

    return frame.observe(f"{ROWS_IN}.{source.view}", F.count(F.lit(1)).alias("rows"))


def parsed(frame: DataFrame, source: TopicSource) -> tuple[DataFrame, DataFrame | None]:
    """Return columns by the schema, and the records that do not fit it, if they are to be kept."""
    from pyspark.sql import functions as F

    if source.format == "bytes":
        return frame, None
    if source.format == "string":
        return frame.withColumn("value", F.expr("cast(value as string)")), None
    marked = frame.withColumn(_PARSED, _parse(source))
    is_bad = F.expr(
        f"value is not null and ({_PARSED} is null or {_PARSED}.{_CORRUPT} is not null)"
    )
    letters = None
    match source.bad_values:
        case "fail":
            complaint = F.raise_error(F.expr(_complaint(source)))
            marked = marked.withColumn(_PARSED, F.when(is_bad, complaint).otherwise(F.col(_PARSED)))
        case "null":
            marked = marked.withColumn(_PARSED, F.when(~is_bad, F.col(_PARSED)))
        case "skip" | "dead-letters":
            if source.bad_values == "dead-letters":
                letters = marked.where(is_bad)
                marked = counted(marked, source)
            marked = marked.where(~is_bad)
    return _unfolded(marked), letters


def _parse(source: TopicSource) -> Column:
    from pyspark.sql import functions as F

    schema = f"{source.schema}, {_CORRUPT} string"
    options = {"columnNameOfCorruptRecord": _CORRUPT, **source.parse_options}
    text = F.expr("cast(value as string)")
    if source.format == "csv":
        return F.from_csv(text, schema, options)
    return F.from_json(text, schema, options)


def _complaint(source: TopicSource) -> str:
    return (
        "concat('record ', topic, '-', partition, '@', offset, "
        f"': its value is no {source.format} of the schema: ', "
        f"left(cast(value as string), {SHOWN_CHARACTERS}))"
    )


def _unfolded(marked: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    origin = [F.expr(text).alias(name) for name, text in ORIGIN_COLUMNS.items()]
    return marked.select(f"{_PARSED}.*", *origin).drop(_CORRUPT)


def to_records(frame: DataFrame, sink: TopicSink) -> DataFrame:
    """Return the columns of the sink: unchanged if the frame has them, else all columns as JSON."""
    from pyspark.sql import functions as F

    is_raw = sink.format == "raw" or (sink.format is None and _looks_raw(frame))
    columns = _as_they_are(frame) if is_raw else _folded(frame)
    if sink.key is not None:
        columns["key"] = F.expr(sink.key).cast("string")
    return frame.select(*(column.alias(name) for name, column in columns.items()))


def _as_they_are(frame: DataFrame) -> dict[str, Column]:
    from pyspark.sql import functions as F

    if "value" not in frame.columns:
        there = ", ".join(frame.columns)
        raise ValueError(f"format raw wants a column `value`; there are {there}")
    return {name: F.col(name) for name in WRITTEN_COLUMNS if name in frame.columns}


def _folded(frame: DataFrame) -> dict[str, Column]:
    from pyspark.sql import functions as F

    plain = [f"`{name}`" for name in frame.columns if name not in ORIGIN_COLUMNS]
    if not plain:
        raise ValueError("no column is left to write")
    columns = {"value": F.to_json(F.struct(*plain), {"ignoreNullFields": "false"})}
    for name in ("_key", "_headers", "_timestamp"):
        if name in frame.columns:
            columns[name[1:]] = F.col(name)
    return columns


def _looks_raw(frame: DataFrame) -> bool:
    types = dict(frame.dtypes)
    return types.get("value") in ("string", "binary") and set(types) <= set(RAW_COLUMNS)


def to_letters(bad: DataFrame, topic: str) -> DataFrame:
    """Return records that could not be parsed, unchanged, with headers that say where from."""
    from pyspark.sql import functions as F

    origin = F.expr(
        "array(named_struct('key', 'dead-letter.from', 'value', "
        "cast(concat(topic, '-', partition, '@', offset) as binary)), "
        "named_struct('key', 'dead-letter.reason', 'value', "
        "cast('the value does not fit the schema' as binary)))"
    )
    headers = F.concat(F.coalesce(F.col("headers"), F.expr("array()")), origin)
    return bad.select("key", "value", headers.alias("headers"), "timestamp").withColumn(
        "topic", F.lit(topic)
    )
