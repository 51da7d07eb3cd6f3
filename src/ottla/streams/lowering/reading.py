"""Reads topics into frames."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.streams.errors import BadTopology
from ottla.streams.lowering.columns import column
from ottla.streams.lowering.dead import DeadLetters, Failure
from ottla.streams.lowering.frame import COLUMNS, HEADERS, Frame
from ottla.streams.lowering.mistakes import mistakes_of
from ottla.streams.plan import Input
from ottla.streams.serdes import Serde
from ottla.streams.topology.ends import Source

RAW = (
    f"topic string, `partition` int, `offset` bigint, timestamp timestamp,"
    f" key binary, value binary, headers {HEADERS}"
)
_NAMES = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

Serdes = Mapping[str, tuple[Serde, Serde]]
"""Serdes of key and value of each internal topic."""


def read(
    spark: SparkSession, topics: list[str], start: str, options: Mapping[str, str]
) -> DataFrame:
    """Return a stream of the records of topics, committed ones only."""
    reader = spark.readStream.format("ottla").options(**options)
    reader = reader.option("subscribe", ",".join(topics)).option("startingOffsets", start)
    reader = reader.option("includeHeaders", "true")
    return reader.option("kafka.isolation.level", "read_committed").load().select(*_NAMES)


def read_whole(spark: SparkSession, topic: str, options: Mapping[str, str]) -> DataFrame:
    """Return all records that a topic holds when the frame is used, committed ones only."""
    reader = spark.read.format("ottla").options(**options).option("subscribe", topic)
    reader = reader.option("includeHeaders", "true")
    return reader.option("kafka.isolation.level", "read_committed").load().select(*_NAMES)


def start_of(entry: Input) -> str:
    operation = entry.node.operation
    inside = entry.internal is not None or not isinstance(operation, Source)
    return "earliest" if inside else operation.start  # type: ignore[attr-defined]


def parsed(raw: DataFrame, entry: Input, serdes: Serdes, dead: DeadLetters) -> Frame:
    """Return the records of one input, typed; those that cannot be parsed are set aside."""
    operation = entry.node.operation
    if entry.internal:
        key, value = serdes[entry.internal.name]
    else:
        assert isinstance(operation, Source)
        key, value = operation.key, operation.value
    mine = raw.filter(F.col("topic").isin(list(entry.topics)))
    with mistakes_of(entry.node):
        frame = Frame(typed(mine, key, value, entry.node.name, dead), key, value)
    if entry.internal is None and isinstance(operation, Source) and operation.timestamp:
        with mistakes_of(entry.node, frame.data):
            return _timed(frame, operation)
    return frame


def typed(raw: DataFrame, key: Serde, value: Serde, node: str, dead: DeadLetters) -> DataFrame:
    data = raw.withColumnsRenamed(
        {"topic": "__topic", "partition": "__partition", "offset": "__offset"}
    )
    keys, values = key.parse(F.col("key")), value.parse(F.col("value"))
    both = {
        "__key": keys.value,
        "__value": values.value,
        "__problem": F.coalesce(
            F.concat(F.lit("key: "), keys.problem), F.concat(F.lit("value: "), values.problem)
        ),
    }
    problem = F.col("__problem")
    failure = Failure(F.when(problem.isNotNull(), F.lit("DeserializationError")), problem)
    good = dead.part(data.withColumns(both), failure, node, F.col("key"), F.col("value"))
    renamed = good.drop("key", "value").withColumnsRenamed({"__key": "key", "__value": "value"})
    return renamed.select(*COLUMNS)


def _timed(frame: Frame, operation: Source) -> Frame:
    assert operation.timestamp is not None
    moment = column(operation.timestamp(frame.record))
    timed = frame.data.withColumn("timestamp", F.coalesce(moment, F.col("timestamp")))
    kind = timed.schema["timestamp"].dataType.simpleString()
    if kind != "timestamp":
        raise BadTopology(
            f"timestamp= of {','.join(operation.topics)} gives {kind}, not timestamps"
        )
    return frame.having(timed)
