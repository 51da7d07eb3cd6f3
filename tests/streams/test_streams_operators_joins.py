"""Joins and tables in Spark, against models: random batches, tombstones, a restart."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce as together
from pathlib import Path
from random import Random
from typing import Any

import models
import pytest
from micro_batches import (
    Outputs,
    Row,
    TwoRuns,
    by_batch,
    ms,
    random_batches,
    rows_of,
    told,
)
from models import Pair, Rec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from ottla.streams.operators import joins, tables
from ottla.streams.windows import JoinWindow

NUMBERS = ("string", "bigint")


def labelled(frames: Mapping[str, DataFrame], *columns: str) -> DataFrame:
    named = [frame.select(F.lit(name).alias("name"), *columns) for name, frame in frames.items()]
    return together(DataFrame.unionByName, named)


def of(name: str, outputs: Outputs) -> Outputs:
    found = [(number, [row for row in rows if row["name"] == name]) for number, rows in outputs]
    return [(number, rows) for number, rows in found if rows]


def pair_of(row: Row) -> Pair:
    gone = row.get(joins.GONE) or False
    return Pair(row["key"], row["left"], row["right"], ms(row["timestamp"]), gone)


def test_joins_with_tables_are_those_of_the_model(spark: SparkSession, tmp_path: Path) -> None:
    seed = Random().randrange(10**6)
    print(f"seed {seed}")
    batches = random_batches(
        Random(seed), count=4, size=40, values=[*range(9), None, None], sides=2
    )
    runs = TwoRuns(tmp_path, [NUMBERS, NUMBERS], batches)
    left, right = (topic.stream(spark) for topic in runs.topics)
    frames = {
        "stream": joins.stream_table(left, right, how="left"),
        "tables": joins.table_table(left, right, how="outer"),
    }
    made = runs.run(labelled(frames, "key", "left", "right", "timestamp", joins.GONE))
    assert by_batch(of("stream", made), pair_of) == told(models.stream_table(runs.seen, "left"))
    wanted = models.table_table(runs.seen, "outer", every=False)
    assert by_batch(of("tables", made), pair_of) == told(wanted)


def test_streams_join_within_a_window(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is too late here; alone is told at the end, when none can come any more."""
    seed = Random().randrange(10**6)
    print(f"seed {seed}")
    batches = random_batches(Random(seed), count=4, size=25, values=[*range(9), None], sides=2)
    later = [Rec("z", side, 200_000, side) for side in (0, 1)]
    window = JoinWindow(before="1 second", after="500 ms", grace="2 seconds")
    runs = TwoRuns(tmp_path, [NUMBERS, NUMBERS], [*batches, later])
    left, right = (topic.stream(spark) for topic in runs.topics)
    frames = {how: joins.stream_stream(left, right, window, how=how) for how in ("inner", "outer")}
    made = runs.run(labelled(frames, "key", "left", "right", "timestamp"), "append")
    for how in frames:
        pairs = {str(pair_of(row)) for row in rows_of(of(how, made)) if row["key"] != "z"}
        assert pairs == set(map(str, models.stream_stream(batches, how, 1000, 500)))


def test_a_record_is_alone_only_after_its_window(spark: SparkSession, tmp_path: Path) -> None:
    window = JoinWindow("1 second")
    batches = [
        [Rec("a", 1, 10_000), Rec("b", 2, 10_000), Rec("x", 0, 10_000, 1)],
        [Rec("b", 20, 11_000, 1), Rec("x", 0, 11_900), Rec(None, 3, 11_500)],
        [Rec("x", 0, 20_000), Rec("x", 0, 20_000, 1)],
        [],
    ]
    runs = TwoRuns(tmp_path, [NUMBERS, NUMBERS], batches)
    left, right = (topic.stream(spark) for topic in runs.topics)
    made = runs.run(joins.stream_stream(left, right, window, how="left"), "append")
    found = [(number, pair_of(row)) for number, rows in made for row in rows if row["key"] != "x"]
    met, *alone = found
    assert met == (1, Pair("b", 2, 20, 11_000))
    assert sorted(str(pair) for _, pair in alone) == [
        str(Pair("a", 1, None, 10_000)),
        str(Pair(None, 3, None, 11_500)),
    ]
    assert all(number > 1 for number, _ in alone)


def test_tables_are_grouped_anew(spark: SparkSession, tmp_path: Path) -> None:
    seed = Random().randrange(10**6)
    print(f"seed {seed}")
    batches = random_batches(Random(seed), count=4, size=25, values=[*range(9), None, None])
    runs = TwoRuns(tmp_path / "table", [NUMBERS], batches)
    table = runs.topics[0].stream(spark)
    changes = tables.regrouped(
        tables.changes(table), lambda key, value: ((value % 3).cast("string"), value)
    )
    frames = {"changes": changes.withColumnRenamed("value", "change")}
    made = runs.run(labelled(frames, "key", "change", "timestamp"))
    wanted = models.regrouped_sums(batches, lambda value: str(value % 3))
    sums = sums_of(of("changes", made))
    # A group that rows joined and left within one batch is never told of.
    assert wanted == {group: 0 for group, total in wanted.items() if not total} | sums
    check_sums_in_spark(spark, tmp_path, of("changes", made), sums)


def sums_of(changes: Outputs) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in rows_of(changes):
        old, new = row["change"]["old"] or 0, row["change"]["new"] or 0
        sums[row["key"]] = sums.get(row["key"], 0) - old + new
    return sums


def check_sums_in_spark(
    spark: SparkSession, folder: Path, changes: Outputs, wanted: Mapping[str, int]
) -> None:
    """What the first half gave goes through a topic, by key, to the second."""
    recs = [Rec(row["key"], row["change"], ms(row["timestamp"])) for row in rows_of(changes)]
    batches = [recs[: len(recs) // 2], recs[len(recs) // 2 :]]
    runs = TwoRuns(folder / "changes", [("string", "struct<old:bigint,new:bigint>")], batches)
    total = tables.aggregate_table(
        runs.topics[0].stream(spark),
        int,
        lambda key, value, before: before + value,
        lambda key, value, before: before - value,
        LongType(),
    )
    assert {row["key"]: row["value"] for row in rows_of(runs.run(total))} == wanted


def test_a_changelog_amounts_to_its_newest_rows(spark: SparkSession) -> None:
    schema = "key string, value bigint, timestamp timestamp, `__partition` int, `__offset` bigint"
    rows: list[tuple[Any, ...]] = [
        ("a", 1, None, 0, 0),
        ("a", 2, None, 0, 1),
        ("b", 1, None, 1, 0),
        ("b", None, None, 1, 5),
        (None, 3, None, 1, 6),
        ("c", None, None, 0, 2),
        ("c", 4, None, 0, 3),
    ]
    changelog = spark.createDataFrame(rows, schema)
    found = {row["key"]: row["value"] for row in tables.latest(changelog).collect()}
    assert found == {"a": 2, "c": 4}


def test_mistakes_in_joins_are_told(spark: SparkSession) -> None:
    number = spark.createDataFrame([], "key bigint, value bigint, timestamp timestamp")
    text = spark.createDataFrame([], "key string, value bigint, timestamp timestamp")
    with pytest.raises(ValueError, match="bigint on the left and string on the right never meet"):
        joins.stream_table(number, text)
    with pytest.raises(ValueError, match="how is 'full': it must be one of inner, left, outer"):
        joins.table_table(text, text, how="full")
