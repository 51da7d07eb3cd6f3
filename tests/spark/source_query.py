"""A streaming query that collects what the source shows, batch by batch, and can be begun again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from source_log import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

RUN_S = 60
COLUMNS = (
    "topic",
    "partition",
    "offset",
    "key",
    "value",
    "unix_millis(timestamp) AS timestamp_ms",
    "timestampType",
)
SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
    "timestamp:timestamp,timestampType:int>"
)
WITH_HEADERS = SCHEMA[:-1] + ",headers:array<struct<key:string,value:binary>>>"


class PlacedFailure(Exception):
    """The sink of the query fails, because the story wants it."""


def as_rows(frame: DataFrame) -> list[Row]:
    """Checks the columns, too."""
    has_headers = "headers" in frame.columns
    expected = WITH_HEADERS if has_headers else SCHEMA
    assert frame.schema.simpleString() == expected, frame.schema.simpleString()
    columns = [*COLUMNS, "headers"] if has_headers else [*COLUMNS, "CAST(NULL AS STRING) AS none"]
    return [
        Row(
            found[0],
            found[1],
            found[2],
            None if found[3] is None else bytes(found[3]),
            None if found[4] is None else bytes(found[4]),
            found[5],
            found[6],
            _headers(found[7]),
        )
        for found in frame.selectExpr(*columns).collect()
    ]


def _headers(found: object) -> tuple[tuple[str, bytes | None], ...] | None:
    if found is None:
        return None
    assert isinstance(found, list)
    assert found, "no headers are null, as in Spark's own source"
    return tuple((key, None if value is None else bytes(value)) for key, value in found)


def _places(rows: Counter[Row]) -> list[tuple[str, int, int]]:
    return sorted((row.topic, row.partition, row.offset) for row in rows)[:8]


class Query:
    """What a batch showed last counts: a batch that is run again takes the place of its first."""

    def __init__(
        self,
        spark: SparkSession,
        form: str,
        options: Mapping[str, str],
        checkpoint: Path,
        may_compact: Callable[[str], bool],
    ) -> None:
        """Topics that `may_compact` lose records at any time, between two runs of a batch too."""
        self.spark = spark
        self.form = form
        self.options = dict(options)
        self.checkpoint = checkpoint
        self.may_compact = may_compact
        self.batches: dict[int, list[Row]] = {}
        self.repeated = 0
        self.runs = 0
        self.must_repeat_equally = True
        """Until something is deleted that a batch has planned to read."""
        self._fail_after: int | None = None

    # What it has shown

    def rows(self) -> Counter[Row]:
        return Counter(row for rows in self.batches.values() for row in rows)

    def _take(self, frame: DataFrame, batch: int) -> None:
        rows = as_rows(frame)
        before = self.batches.get(batch)
        self.batches[batch] = rows
        if before is not None:
            self.repeated += 1
            if self.must_repeat_equally:
                kept = Counter(row for row in before if not self.may_compact(row.topic))
                gone, came = kept - Counter(rows), Counter(rows) - Counter(before)
                assert not gone, f"batch {batch} showed {_places(gone)} when it was run first"
                assert not came, f"batch {batch} shows {_places(came)} when it is run again"
        if self._fail_after is not None:
            self._fail_after -= 1
            if self._fail_after < 0:
                raise PlacedFailure(f"in batch {batch}")

    # Its lives

    def start(self, **trigger: Any) -> StreamingQuery:
        self.runs += 1
        frame = self.spark.readStream.format(self.form).options(**self.options).load()
        writer = frame.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        query: StreamingQuery = writer.trigger(**trigger).start()
        return query

    def run_available(self, fail_after: int | None = None) -> bool:
        """Whether it came to its end: a failure may be placed in the nth batch of this run."""
        self._fail_after = fail_after
        query = self.start(availableNow=True)
        try:
            assert query.awaitTermination(RUN_S), f"not done within {RUN_S} s: {query.status}"
        except Exception as error:
            if "PlacedFailure" in str(error):
                return False
            raise
        finally:
            self._fail_after = None
            query.stop()
        return True

    def run_continuously(self, meanwhile: Callable[[], None]) -> None:
        query = self.start(processingTime="0 seconds")
        try:
            meanwhile()
            query.processAllAvailable()
        finally:
            query.stop()

    def run_and_break_off(self, chance: random.Random) -> None:
        """Stopped wherever it is."""
        query = self.start(processingTime="0 seconds")
        # PySpark takes fractions of a second, but its annotation says int.
        query.awaitTermination(chance.uniform(0.0, 1.0))  # type: ignore[arg-type]
        query.stop()

    def error_of_run(self) -> str:
        """For a run that must fail; what it says."""
        try:
            self.run_available()
        except Exception as error:
            return str(error)
        raise AssertionError("the query went on as if nothing were lost")
