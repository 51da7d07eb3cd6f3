"""Aggregates with windows in Spark, against models: random batches, late records, a restart.

Several operators run in one query, each under its name: a micro-batch costs more than they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce as together
from pathlib import Path
from random import Random
from typing import Any

import models
from micro_batches import TwoRuns, by_batch, random_batches, told, update_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType

from ottla.streams.operators import reduce, suppress, windows
from ottla.streams.operators.reduce import How
from ottla.streams.windows import Hopping, Session, Sliding, Tumbling

GRACE = "1 second"
GRACE_MS = 1000
LISTS = ArrayType(LongType())


def labelled(frames: Mapping[str, DataFrame]) -> DataFrame:
    """One frame of all, each row with the name of its own."""
    named = [
        frame.select(F.lit(name).alias("name"), "key", "value", "timestamp")
        for name, frame in frames.items()
    ]
    return together(DataFrame.unionByName, named)


def of(name: str, outputs: Any) -> Any:
    """The results of one of several operators, without batches that had none."""
    found = [(number, [row for row in rows if row["name"] == name]) for number, rows in outputs]
    return [(number, rows) for number, rows in found if rows]


def folds(stream: DataFrame) -> dict[str, DataFrame]:
    """Python's aggregates: the values of a window, in order of size; and what needs no windows."""

    def sorted_values(window: Any) -> DataFrame:
        return reduce.aggregate(
            stream,
            list,
            lambda key, value, before: sorted([*before, value]),
            LISTS,
            How(window=window, final=True),
        )

    def alike(frame: DataFrame) -> DataFrame:
        """Of the types that results of windows have."""
        nothing = F.lit(None).cast("struct<start:timestamp,end:timestamp>").alias("window")
        key = F.struct("key", nothing)
        return frame.withColumns({"key": key, "value": F.array("value")})

    return {
        "sliding": sorted_values(Sliding("700 ms", grace=GRACE)),
        "hopping": sorted_values(Hopping("2 seconds", advance="1 second", grace=GRACE)),
        "max": alike(reduce.reduce(stream, lambda old, new: max(old, new))),
        "columns": alike(windows.aggregate(stream, F.sum("value"))),
        "held": alike(suppress.until_time_limit(stream, 1500)),
    }


def test_python_aggregates_are_those_of_the_model(spark: SparkSession, tmp_path: Path) -> None:
    """Stream time is one for a query: what is held back waits for the grace of windows, too."""
    seed = Random().randrange(10**6)
    print(f"seed {seed}")
    batches = random_batches(Random(seed), count=4, size=30, values=range(10))
    runs = TwoRuns(tmp_path, [("string", "bigint")], batches)
    made = runs.run(labelled(folds(runs.topics[0].stream(spark))))
    spans = (2000, 1000, GRACE_MS)
    wanted = {
        "sliding": models.by_sliding(runs.seen, sorted, 700, GRACE_MS, final=True),
        "hopping": models.by_time(runs.seen, sorted, spans, final=True, native=False),
        "max": models.by_key(runs.seen, lambda values: [max(values)]),
        "columns": models.by_key(runs.seen, lambda values: [sum(values)]),
        "held": [
            [update._replace(value=[update.value]) for update in updates]
            for updates in models.held_back(runs.seen, 1500, GRACE_MS)
        ],
    }
    for name, updates in wanted.items():
        assert by_batch(of(name, made), update_of) == told(updates), name


def natives(stream: DataFrame, *, final: bool) -> dict[str, DataFrame]:
    """Spark's own aggregates."""
    count_and_sum = {"n": F.count(F.lit(1)), "total": F.sum("value")}
    made = {
        "tumbling": windows.aggregate(
            stream, count_and_sum, window=Tumbling("1 second", grace=GRACE), final=final
        ),
        "hopping": windows.aggregate(
            stream,
            count_and_sum,
            window=Hopping("3 seconds", advance="1 second", grace=GRACE),
            final=final,
        ),
    }
    if final:
        session = Session("1 second", grace=GRACE)
        made["session"] = windows.aggregate(stream, count_and_sum, window=session, final=True)
    return made


def count_and_sum(values: list[Any]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    return {"n": len(values), "total": sum(known) if known else None}


def test_aggregates_of_columns_are_updated_as_in_the_model(
    spark: SparkSession, tmp_path: Path
) -> None:
    seed = Random().randrange(10**6)
    print(f"seed {seed}")
    batches = random_batches(Random(seed), count=4, size=40, values=[*range(9), None])
    runs = TwoRuns(tmp_path, [("string", "bigint")], batches)
    made = runs.run(labelled(natives(runs.topics[0].stream(spark), final=False)))
    for name, size in (("tumbling", 1000), ("hopping", 3000)):
        spans = (size, 1000, GRACE_MS)
        wanted = models.by_time(runs.seen, count_and_sum, spans, final=False, native=True)
        assert by_batch(of(name, made), update_of) == told(wanted)


def test_final_aggregates_of_columns_come_once_when_a_window_has_closed(
    spark: SparkSession, tmp_path: Path
) -> None:
    seed = Random().randrange(10**6)
    print(f"seed {seed}")
    batches = random_batches(Random(seed), count=4, size=40, values=[*range(9), None])
    runs = TwoRuns(tmp_path, [("string", "bigint")], batches)
    made = runs.run(labelled(natives(runs.topics[0].stream(spark), final=True)), "append")
    for name, size in (("tumbling", 1000), ("hopping", 3000)):
        spans = (size, 1000, GRACE_MS)
        wanted = models.by_time(runs.seen, count_and_sum, spans, final=True, native=True)
        assert by_batch(of(name, made), update_of) == told(wanted)
    sessions = models.by_session(runs.seen, count_and_sum, 1000, GRACE_MS, final=True, native=True)
    assert by_batch(of("session", made), update_of) == told(sessions)


def test_columns_of_windows_that_spark_does_not_know(spark: SparkSession, tmp_path: Path) -> None:
    """Sessions that are open, and sliding windows."""
    seed = Random().randrange(10**6)
    print(f"seed {seed}")
    batches = random_batches(Random(seed), count=4, size=25, values=[*range(9), None])
    runs = TwoRuns(tmp_path, [("string", "bigint")], batches)
    stream = runs.topics[0].stream(spark)
    changed = labelled(
        {
            "session": windows.changed_windows(stream, Session("1 second", grace=GRACE)),
            "sliding": windows.changed_windows(stream, Sliding("700 ms", grace=GRACE)),
        }
    )

    def finish(batch: DataFrame) -> DataFrame:
        columns = {"n": F.count(F.lit(1)), "total": F.sum("value")}
        return labelled(
            {
                name: windows.aggregate_changed(batch.filter(F.col("name") == name), columns)
                for name in ("session", "sliding")
            }
        )

    made = runs.run(changed, finish=finish)
    sessions = models.by_session(runs.seen, count_and_sum, 1000, GRACE_MS, final=False)
    assert by_batch(of("session", made), update_of) == told(sessions)
    sliding = models.by_sliding(runs.seen, count_and_sum, 700, GRACE_MS, final=False)
    assert by_batch(of("sliding", made), update_of) == told(sliding)
