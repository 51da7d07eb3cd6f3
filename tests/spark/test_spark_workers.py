"""Workers made ready for many short tasks."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from ottla.spark import workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_what_a_worker_has_loaded_is_set_aside_in_it_and_nowhere_else(spark: SparkSession) -> None:
    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        workers.task_done()
        yield pa.record_batch({"frozen": pa.array([gc.get_freeze_count()], pa.int64())})

    before = gc.get_freeze_count()
    workers.task_done()
    assert gc.get_freeze_count() == before
    counts = spark.range(2, numPartitions=2).mapInArrow(frozen, "frozen long").collect()
    assert min(row.frozen for row in counts) > 10_000


def test_workers_import_pyspark_as_it_was_compiled_and_not_from_a_zip(spark: SparkSession) -> None:
    """From Spark's zip each worker would compile it anew, which takes three times as long."""

    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    (row,) = spark.range(1).coalesce(1).mapInArrow(where, "file string").collect()
    assert "pyspark.zip" not in row.file
