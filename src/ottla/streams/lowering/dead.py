"""Records that fail: set aside with the reason, or they end the query.

The headers of a dead letter are those of Kafka Streams (KIP-1034) plus the node's name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.streams.lowering.frame import HEADERS

PREFIX = "__streams.errors."
MARK = "ottla.streams: "
"""The prefix of error messages that name a node themselves."""


@dataclass(frozen=True)
class Failure:
    """Columns with the error of a record; all null if it did not fail."""

    kind: Column
    message: Column


@dataclass
class DeadLetters:
    """Collects the records that fail while frames are built; `topic` None: they stop the query."""

    topic: str | None
    letters: list[DataFrame] = field(default_factory=list)

    def part(
        self, data: DataFrame, failure: Failure, node: str, key: Column, value: Column
    ) -> DataFrame:
        """Return the records that did not fail. Keep `key` and `value` of the others as bytes."""
        if self.topic is None:
            return data.filter(
                F.when(failure.kind.isNotNull(), _error(failure, node)).otherwise(True)
            )
        failed = data.filter(failure.kind.isNotNull())
        headers = F.concat(F.coalesce("headers", F.array().cast(HEADERS)), _headers(failure, node))
        self.letters.append(
            failed.select(
                F.lit(self.topic).alias("topic"),
                key.alias("key"),
                value.alias("value"),
                headers.cast(HEADERS).alias("headers"),
                "timestamp",
            )
        )
        return data.filter(failure.kind.isNull())

    def together(self) -> DataFrame | None:
        return reduce(DataFrame.unionByName, self.letters) if self.letters else None


def _error(failure: Failure, node: str) -> Column:
    """Stop the query with an error that names the node and the record."""
    where = F.concat_ws("/", "__topic", F.concat(F.lit("partition "), "__partition"))
    parts = [
        F.lit(f"{MARK}{node}: "),
        failure.kind,
        F.lit(": "),
        F.coalesce(failure.message, F.lit("")),
        F.lit(" (record "),
        where,
        F.lit("/offset "),
        F.coalesce(F.col("__offset").cast("string"), F.lit("?")),
        F.lit("; App(dead_letters=...) would set such records aside)"),
    ]
    return F.raise_error(F.concat(*parts)).cast("boolean")


def _headers(failure: Failure, node: str) -> Column:
    told = {
        "exception": failure.kind,
        "message": failure.message,
        "node": F.lit(node),
        "topic": F.col("__topic"),
        "partition": F.col("__partition").cast("string"),
        "offset": F.col("__offset").cast("string"),
    }
    made = [
        F.struct(F.lit(PREFIX + name).alias("key"), text.cast("binary").alias("value"))
        for name, text in told.items()
    ]
    return F.array(*made)
