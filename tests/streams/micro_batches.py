"""Micro-batches that a test decides: one file of Parquet each, read one a batch, with checkpoints.

Between two runs the query is stopped and started again from its checkpoint.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


def moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def ms(when: datetime) -> int:
    return (when.replace(tzinfo=when.tzinfo or UTC) - EPOCH) // timedelta(milliseconds=1)


class Topic:
    """Rows of a stream, in batches. Offsets are given as rows come."""

    def __init__(self, folder: Path, key: str, value: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._schema = StructType.fromDDL(
            f"key {key}, value {value}, timestamp timestamp, `__partition` int, `__offset` bigint"
        )
        self._files = itertools.count()
        self._offset = itertools.count()

    def row(self, key: Any, value: Any, at: int, partition: int = 0) -> Row:
        return {
            "key": key,
            "value": value,
            "timestamp": moment(at),
            "__partition": partition,
            "__offset": next(self._offset),
        }

    def add_batch(self, rows: Sequence[Row]) -> None:
        number = next(self._files)
        table = pa.Table.from_pylist(
            list(rows), schema=to_arrow_schema(self._schema, timezone="UTC")
        )
        hidden = self.folder / f".{number}"
        pq.write_table(table, hidden)
        # The source takes the oldest file first.
        os.utime(hidden, (1e9 + number, 1e9 + number))
        hidden.rename(self.folder / f"{number:05}.parquet")

    def stream(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))


Outputs = list[tuple[int, list[Row]]]


def run_to_end(
    frame: DataFrame,
    checkpoint: Path,
    mode: str = "update",
    finish: Callable[[DataFrame], DataFrame] = lambda batch: batch,
) -> Outputs:
    """All batches there are, as (batch, rows); `finish` runs on the frame of each."""
    outputs: Outputs = []

    def keep(batch: DataFrame, number: int) -> None:
        rows = [row.asDict(recursive=True) for row in finish(batch).collect()]
        if rows:
            outputs.append((number, rows))

    query = (
        frame.writeStream.outputMode(mode)
        .foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return outputs


def rows_of(outputs: Outputs) -> list[Row]:
    return [row for _, rows in outputs for row in rows]
