"""Writes frames to topics: all that a query writes in a batch is one exactly-once write."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.streams.lowering.dead import DeadLetters
from ottla.streams.lowering.flow import Flow
from ottla.streams.lowering.frame import Frame
from ottla.streams.plan import Output
from ottla.streams.serdes import Serde
from ottla.streams.settings import Settings


def serdes_of(output: Output, frame: Frame) -> tuple[Serde, Serde]:
    """Return the serdes of the sink, or else those of the records."""
    key, value = frame.key, frame.value
    if output.end is not None:
        key = getattr(output.end.operation, "key", None) or key
        value = getattr(output.end.operation, "value", None) or value
    return Frame(frame.data, key, value).serdes(output.node.name)


def rows(output: Output, frame: Frame) -> DataFrame:
    key, value = serdes_of(output, frame)
    return frame.data.select(
        F.lit(output.topic).alias("topic"),
        key.encode(F.col("key").cast(key.spark_type())).alias("key"),
        value.encode(F.col("value").cast(value.spark_type())).alias("value"),
        "headers",
        "timestamp",
    )


def all_rows(outputs: tuple[Output, ...], flow: Flow, dead: DeadLetters) -> list[DataFrame]:
    """Return a frame for each output that gets records, and one of dead letters."""
    frames = [(output, flow.at(output.node)) for output in outputs]
    made = [rows(output, frame) for output, frame in frames if frame]
    letters = dead.together()
    return [*made, letters] if letters is not None else made


def write(frames: list[DataFrame], settings: Settings, transaction: str, version: int) -> None:
    """Write the frames, at most once for each version.

    Several outputs are written by as many tasks as run at a time, because each task has a
    transaction.
    """
    together = reduce(DataFrame.unionByName, frames)
    if len(frames) > 1:
        together = together.coalesce(together.sparkSession.sparkContext.defaultParallelism)
    writer = together.write.format("ottla").options(**settings.to_spark())
    writer.option("txnAppId", transaction).option("txnVersion", version).mode("append").save()
