"""Joins a stream with a global table, which is read again when it has changed.

Only for frames of batches, which the plan ensures. Spark would read a table that is joined to the
streaming part of a query only once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.blocking import Admin
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.values import OffsetAndTimestamp, TopicPartition
from ottla.spark.client_options import admin_options
from ottla.streams.lowering.columns import column
from ottla.streams.lowering.dead import DeadLetters
from ottla.streams.lowering.frame import Frame
from ottla.streams.lowering.joins import joined_in_columns, joined_in_python, pair_of
from ottla.streams.lowering.reading import RAW, read_whole, typed
from ottla.streams.operators import joins
from ottla.streams.operators.global_tables import GlobalTable, stream_global
from ottla.streams.operators.tables import latest
from ottla.streams.settings import Settings
from ottla.streams.topology.ends import GlobalSource
from ottla.streams.topology.stateless import JoinGlobal
from ottla.streams.topology.topology import Node

_PATIENT = {"kafka.default.api.timeout.ms": "60000"}
"""A running query waits for brokers that are away."""


class GlobalTables:
    """The global tables of an application, each read once for all queries until it changes."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark = spark
        self._settings = settings
        self._tables: dict[Node, GlobalTable] = {}

    def rows(self, node: Node) -> DataFrame:
        if node not in self._tables:
            operation = node.operation
            assert isinstance(operation, GlobalSource)
            self._tables[node] = GlobalTable(
                self._reader(node, operation), self._version(operation.topic)
            )
        return self._tables[node].rows()

    def _reader(self, node: Node, operation: GlobalSource) -> Callable[[], DataFrame]:
        """Return a function that reads the table. A row that cannot be parsed stops the query,
        because it belongs to no batch whose dead letters could take it."""

        def read() -> DataFrame:
            raw = read_whole(
                self._spark, operation.topic, {**_PATIENT, **self._settings.to_spark()}
            )
            return typed(raw, operation.key, operation.value, node.name, DeadLetters(None))

        return read

    def _version(self, topic: str) -> Callable[[], Hashable]:
        def version() -> Hashable:
            with Admin(**admin_options(self._settings.to_spark())) as admin:
                count = len(admin.describe_topic(topic).partitions)
                ends = dict.fromkeys(
                    (TopicPartition(topic, number) for number in range(count)),
                    int(OffsetSpec.LATEST),
                )
                found = admin.list_offsets(ends, isolation_level="read_committed")
            return tuple(
                (one.partition, at.offset)
                for one, at in sorted(found.items())
                if isinstance(at, OffsetAndTimestamp)
            )

        return version

    def close(self) -> None:
        for table in self._tables.values():
            table.close()


class EmptyTables(GlobalTables):
    """The same without rows and without a cluster, to check whether the join fits."""

    def rows(self, node: Node) -> DataFrame:
        operation = node.operation
        assert isinstance(operation, GlobalSource)
        nothing = self._spark.createDataFrame([], RAW)
        return latest(typed(nothing, operation.key, operation.value, node.name, DeadLetters(None)))


def join_global(node: Node, frame: Frame, tables: GlobalTables, dead: DeadLetters) -> Frame:
    operation = node.operation
    assert isinstance(operation, JoinGlobal)
    on = None if operation.on is None else column(operation.on(frame.record))
    pairs = stream_global(frame.data, tables.rows(node.parents[1]), on=on, how=operation.how)
    if operation.python:
        assert operation.value is not None
        both = Frame(joins.joined(pairs, pair_of), frame.key, None)
        return joined_in_python(operation.joiner, operation.value, node.name)(both, dead)
    made = Frame(joined_in_columns(pairs, operation.joiner), frame.key, None)
    return made if operation.value is None else made.with_value(F.col("value"), operation.value)
