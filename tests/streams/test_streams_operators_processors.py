"""Processors in Spark: stores, schedules, what fails, and what cannot work."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import models
import pytest
from micro_batches import Row, Topic, TwoRuns, ms, random_batches, rows_of
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from ottla.streams.operators import processors
from ottla.streams.operators.context import (
    STREAM_TIME,
    WALL_CLOCK,
    Context,
    Processor,
    ProcessorRecord,
)
from ottla.streams.operators.processors import Settings
from ottla.streams.operators.stores import KeyValues, Value, Values

TEXT, NUMBER = StringType(), LongType()


def counting() -> Callable[[], Processor]:
    """Counts, keeps the last two values of each key, and tells all counts every two seconds.

    Made in a function: Spark's workers cannot import tests.
    """

    class Counting(Processor):
        def init(self, context: Context) -> None:
            self.context = context
            self.counts = context.store("counts")
            self.newest = context.store("newest")
            self.last_two = context.store("last-two")
            context.schedule(timedelta(seconds=2), STREAM_TIME, self.tell)

        def process(self, record: ProcessorRecord) -> None:
            if record.key is None:
                return
            if record.value == 7:
                self.counts.put(record.key, 1000)  # is taken back: what fails does nothing
                raise ValueError("seven")
            self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)
            self.last_two.put([*self.last_two.get(), record.value][-2:])
            if (self.newest.get() or 0) < ms_of(record.timestamp):
                self.newest.put(ms_of(record.timestamp))
            if record.value == 8:
                self.context.forward(record.key, f"last {self.last_two.get()}")

        def tell(self, now: datetime) -> None:
            for key, count in self.counts.all():
                self.context.forward(key, f"count {count}")

    def ms_of(when: datetime) -> int:
        return int(when.timestamp() * 1000)

    return Counting


STORES = [KeyValues("counts", TEXT, NUMBER), Value("newest", NUMBER), Values("last-two", NUMBER)]


def expected(seen: models.Batches) -> list[list[tuple[str, str]]]:
    """What `Counting` forwards, by batch, if all keys are in one bucket."""
    clock, due = models.Clock(0), 0
    counts: dict[Any, int] = defaultdict(int)
    values: dict[Any, list[int]] = defaultdict(list)
    outputs = []
    for batch in seen:
        told = []
        for rec in batch:
            if rec.key is not None and rec.value != 7:
                counts[rec.key] += 1
                values[rec.key].append(rec.value)
                if rec.value == 8:
                    told.append((rec.key, f"last {values[rec.key][-2:]}"))
        due = due or clock.now // 2000 * 2000 + 2000
        if due <= clock.now:
            told += [(key, f"count {count}") for key, count in counts.items()]
            due = clock.now // 2000 * 2000 + 2000
        clock.end(batch)
        outputs.append(told)
    return outputs


def test_processors_keep_stores_and_set_aside_what_fails(
    spark: SparkSession, tmp_path: Path
) -> None:
    seed = Random().randrange(10**6)
    print(f"seed {seed}")
    batches = random_batches(Random(seed), count=4, size=30, values=range(10))
    runs = TwoRuns(tmp_path, [("string", "bigint")], batches)
    settings = Settings(STORES, STREAM_TIME, node="counting", set_aside=True, buckets=1)
    frame = processors.process(runs.topics[0].stream(spark), counting(), TEXT, TEXT, settings)
    made = runs.run(frame)
    told = [sorted(forwarded(rows)) for _, rows in made if forwarded(rows)]
    assert told == [sorted(map(str, one)) for one in expected(runs.seen) if one]
    failed = [row for row in rows_of(made) if row["__error_kind"]]
    sevens = [rec for batch in batches for rec in batch if rec.value == 7 and rec.key]
    assert sorted(str((row["__old"]["key"], ms(row["timestamp"]))) for row in failed) == sorted(
        str((rec.key, rec.at)) for rec in sevens
    )
    assert {row["__error"] for row in failed} <= {"seven"}


def forwarded(rows: list[Row]) -> list[str]:
    return [str((row["key"], row["value"])) for row in rows if not row["__error_kind"]]


def test_schedules_follow_stream_time(spark: SparkSession, tmp_path: Path) -> None:
    def ticking() -> Processor:
        class Ticking(Processor):
            def init(self, context: Context) -> None:
                self.context = context
                context.schedule(timedelta(seconds=10), STREAM_TIME, self.tick)

            def process(self, record: ProcessorRecord) -> None:
                headers = [("old", str(record.offset).encode())]
                self.context.forward(1, record.key, headers=headers)
                if record.offset == 2:
                    raise ValueError("two")

            def tick(self, now: datetime) -> None:
                self.context.forward(2, "tick")

        return Ticking()

    rec = models.Rec
    batches = [[rec("a", 1, 12_000)], [rec("a", 1, 25_000)], [rec("a", 1, 26_000)]]
    batches += [[rec("a", 1, 58_000)]]
    runs = TwoRuns(tmp_path, [("string", "bigint")], batches)
    frame = processors.process(
        runs.topics[0].stream(spark),
        ticking,
        NUMBER,
        TEXT,
        Settings(time=STREAM_TIME, set_aside=True),
    )
    rows = rows_of(runs.run(frame))
    # One tick for however many intervals went by, and none while stream time stood still.
    assert [ms(row["timestamp"]) for row in rows if row["key"] == 2] == [
        12_000,
        25_000,
        58_000,
    ]
    headers = [row["headers"] for row in rows if row["key"] == 1]
    assert [one[0]["value"] for one in headers] == [b"0", b"1", b"3"]
    # The key that goes out is of another type than that of the record that failed.
    assert [row["__old"] for row in rows if row["__error_kind"]] == [{"key": "a", "value": 1}]


def test_schedules_follow_the_wall_clock(spark: SparkSession, tmp_path: Path) -> None:
    def ticking() -> Processor:
        class Ticking(Processor):
            def init(self, context: Context) -> None:
                self.context = context
                context.schedule(timedelta(milliseconds=100), WALL_CLOCK, self.tick)

            def process(self, record: ProcessorRecord) -> None:
                self.context.store("seen").put(record.key, record.value)

            def tick(self, now: datetime) -> None:
                for key, value in self.context.store("seen").range("a", "b"):
                    self.context.forward(key, value)

        return Ticking()

    topic = Topic(tmp_path / "topic", "string", "bigint")
    topic.add_batch([topic.row(key, number, 1000) for number, key in enumerate("abc")])
    stores = [KeyValues("seen", TEXT, NUMBER, ttl_ms=3_600_000)]
    settings = Settings(stores=stores, time=WALL_CLOCK, buckets=1)
    frame = processors.process(topic.stream(spark), ticking, TEXT, NUMBER, settings)
    ticks: list[tuple[str, int]] = []

    def keep(batch: DataFrame, number: int) -> None:
        ticks.extend((row["key"], row["value"]) for row in batch.collect())

    writer = frame.writeStream.outputMode("update").foreachBatch(keep)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        deadline = time.monotonic() + 60
        while len(ticks) < 4 and time.monotonic() < deadline and query.isActive:
            time.sleep(0.05)
    finally:
        query.stop()
    assert ticks[:4] == [("a", 0), ("b", 1)] * 2


def test_a_processor_that_fails_ends_the_query_with_its_name_and_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = Settings(stores=STORES, time=STREAM_TIME, node="counting")
    runs = TwoRuns(tmp_path, [("string", "bigint")], [[models.Rec("a", 7, 1000)]])
    frame = processors.process(runs.topics[0].stream(spark), counting(), TEXT, TEXT, settings)
    with pytest.raises(StreamingQueryException) as caught:
        runs.run(frame)
    assert "ottla.streams: counting: ValueError: seven (record topic unknown" in str(caught.value)
    assert 'partition 0, offset 0, key "a")' in str(caught.value)


def test_mistakes_with_processors_are_told(spark: SparkSession) -> None:
    schema = StructType.fromDDL("key string, value bigint, timestamp timestamp")
    frame = spark.createDataFrame([], schema)
    forgetful = Settings(stores=[Value("seen", NUMBER, ttl_ms=5)], time=STREAM_TIME)
    with pytest.raises(ValueError, match="'seen' forgets after 5 ms of wall-clock time"):
        processors.process(frame, counting(), TEXT, TEXT, forgetful)
    with pytest.raises(ValueError, match="time is 'soon'"):
        processors.process(frame, counting(), TEXT, TEXT, Settings(time="soon"))
    context = Context(codecs=None, stores={}, time=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no store 'counts': declare it"):
        context.store("counts")
    with pytest.raises(ValueError, match="needs a processor with time='stream time'"):
        context.schedule(timedelta(seconds=1), STREAM_TIME, lambda now: None)
