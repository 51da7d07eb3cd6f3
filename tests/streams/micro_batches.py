"""Micro-batches that a test decides: one file of Parquet each, read one a batch, with checkpoints.

Between two runs the query is stopped and started again from its checkpoint.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import models
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
        schema = StructType.fromDDL(
            f"key {key}, value {value}, timestamp timestamp, `__partition` int, `__offset` bigint"
        )
        assert isinstance(schema, StructType)
        self._schema = schema
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


class TwoRuns:
    """A query over the same topics, stopped in the middle and started again from its checkpoint.

    `batches` have records of both sides, or of the one there is. With each run an empty batch is
    over, in which Spark lets windows close: models get `seen`.
    """

    def __init__(self, folder: Path, types: Sequence[tuple[str, str]], batches: models.Batches):
        middle = len(batches) // 2
        self._folder = folder
        self._runs = [batches[:middle], batches[middle:]]
        self.topics = [Topic(folder / f"topic-{n}", *kinds) for n, kinds in enumerate(types)]

    @property
    def seen(self) -> list[Sequence[models.Rec]]:
        return [batch for run in self._runs for batch in [*run, []]]

    def run(
        self,
        frame: DataFrame,
        mode: str = "update",
        finish: Callable[[DataFrame], DataFrame] = lambda batch: batch,
    ) -> Outputs:
        outputs: Outputs = []
        for batches in self._runs:
            for batch in batches:
                self._add(batch)
            outputs += run_to_end(frame, self._folder / "checkpoint", mode, finish)
        return outputs

    def _add(self, batch: Sequence[models.Rec]) -> None:
        for side, topic in enumerate(self.topics):
            recs = [rec for rec in batch if rec.side == side]
            topic.add_batch([topic.row(rec.key, rec.value, rec.at) for rec in recs])


def random_batches(
    random: Random,
    *,
    count: int,
    size: int,
    values: Sequence[Any],
    sides: int = 1,
    step: int = 1000,
) -> list[list[models.Rec]]:
    """Records whose times run on by a second a batch, some of them late, some without a key."""
    keys = [*"aaabbbcdé", None]
    return [
        [
            models.Rec(
                random.choice(keys),
                random.choice(values),
                100_000 + 1000 * number + random.randint(-2000, 1000),
                random.randrange(sides),
            )
            for _ in range(size)
        ]
        for number in range(count)
    ]


def by_batch(outputs: Outputs, make: Callable[[Row], Any]) -> list[list[str]]:
    """Results of each batch that had any, comparable whatever their order."""
    return [sorted(str(make(row)) for row in rows) for _, rows in outputs]


def told(outputs: Sequence[Sequence[Any]]) -> list[list[str]]:
    """The same of a model's."""
    return [sorted(map(str, results)) for results in outputs if results]


def update_of(row: Row) -> models.Update:
    key, window = row["key"], None
    if isinstance(key, dict):
        span = key["window"]
        window = span and (ms(span["start"]), ms(span["end"]))
        key = key["key"]
    return models.Update(key, row["value"], ms(row["timestamp"]), window)
