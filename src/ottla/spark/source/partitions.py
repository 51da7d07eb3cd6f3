"""The partition that Spark passes from the driver to a task: a range, and its topic's id."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ottla.client.values import TopicPartition
from ottla.protocol.uuids import ZERO_UUID
from ottla.spark.source.columns import spark_schema
from ottla.spark.source.planning import Range


@dataclass
class RangePartition(InputPartition):
    """A range of offsets for one task, in plain values, because it is pickled for every task."""

    topic: str
    partition: int
    start: int
    until: int
    topic_id: bytes = ZERO_UUID

    @classmethod
    def of(cls, wanted: Range, topic_id: bytes = ZERO_UUID) -> RangePartition:
        return cls(*wanted.partition, wanted.start, wanted.until, topic_id)

    @property
    def range(self) -> Range:
        return Range(TopicPartition(self.topic, self.partition), self.start, self.until)


def check_schema(schema: StructType, *, headers: bool) -> None:
    if schema.names != spark_schema(headers).names or schema != spark_schema(headers):
        raise ValueError(
            "Kafka source has a fixed schema and cannot be set with a custom one: leave out "
            ".schema(...) and use from_json() or from_avro() on the column `value`"
        )
