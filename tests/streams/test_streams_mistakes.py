"""Mistakes in a program are told before a query is started, and before a broker is asked."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ottla.streams import (
    WALL_CLOCK,
    App,
    BadTopology,
    Json,
    Processor,
    Sliding,
    Stream,
    String,
    Value,
)

PAYMENT = Json("account string, amount double")
THERE = r"there are: key string, value struct<account:string,amount:double>, timestamp timestamp"


def payments(app: App) -> Stream:
    return app.stream("payments", value=PAYMENT, named="payments")


def a_field(app: App) -> Any:
    return payments(app).filter(lambda r: r.value.amuont > 1, named="big")


def a_column(app: App) -> Any:
    return payments(app).filter(lambda r: F.col("amuont") > 1, named="big")


def a_part_of_a_record(app: App) -> Any:
    return payments(app).map_values(lambda r: r.offset, named="offsets")


def a_field_of_a_text(app: App) -> Any:
    return app.stream("texts").map_values(lambda r: r.value.amount, named="amounts")


def an_aggregate(app: App) -> Any:
    total = payments(app).group_by_key().agg(lambda r: F.sum("amuont"), named="total")
    return total.to_stream()


def an_aggregate_by_batches(app: App) -> Any:
    windows = payments(app).group_by_key().windowed_by(Sliding("1 minute"))
    return windows.agg(lambda r: F.sum("amuont"), named="total").to_stream()


def after_an_aggregate(app: App) -> Any:
    counts = payments(app).group_by_key().count(store="counts").to_stream()
    return counts.map_values(lambda r: r.value.amount, named="amounts")


def a_global_table(app: App) -> Any:
    accounts = app.global_table("accounts", value=Json("name string"))
    return payments(app).join(accounts, lambda left, right: right.nmae, named="named")


def a_schema(app: App) -> Any:
    return app.stream("payments", value=Json("amount duoble"), named="payments")


def the_schema_of_a_store(app: App) -> Any:
    stores = [Value("seen", Json("amount duoble"))]
    return payments(app).process(Processor, String(), stores=stores, named="seeing")


def a_truth(app: App) -> Any:
    return payments(app).filter(lambda r: r.value.amount > 1 and r.value.amount < 3, named="some")


def is_in(place: str, made: Callable[[App], Any]) -> bool:
    """Whether `file.py:12` is a line of the function, or of what it calls first."""
    lines, first = inspect.getsourcelines(made)
    own = {f"{Path(__file__).name}:{first + number}" for number in range(len(lines))}
    return place in own or place == f"{Path(__file__).name}:{payments.__code__.co_firstlineno + 1}"


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (
            a_field,
            r"^big: there is no field 'amuont'; there are: account, amount; is amount meant\?",
        ),
        (a_column, f"^big: there is no column `amuont`; {THERE}"),
        (a_part_of_a_record, "^offsets: a record has no 'offset'; it has: key, value, timestamp"),
        (a_field_of_a_text, "^amounts: Can't extract .* there are: key string, value string"),
        (an_aggregate, f"^total: there is no column `amuont`; {THERE}"),
        (an_aggregate_by_batches, "^total: there is no column `amuont`; there are: key struct"),
        (after_an_aggregate, "^amounts: Can't extract .* value bigint"),
        (a_global_table, "^named: there is no field 'nmae'; there are: name; is name meant"),
        (a_schema, r"^payments: Json\('amount duoble'\): Spark takes this for no schema: .*DUOBLE"),
        (the_schema_of_a_store, r"^seeing: Json\('amount duoble'\): Spark takes this for no schem"),
        (a_truth, "^some: .*please use '&' for 'and'"),
    ],
)
def test_what_is_not_there_is_told_with_the_step_and_what_is(
    spark: SparkSession, tmp_path: Path, made: Callable[[App], Any], problem: str
) -> None:
    app = App("mistaken", bootstrap_servers="localhost:1")
    made(app).to("out")
    with pytest.raises(BadTopology) as error:
        app.start(spark, checkpoints=tmp_path)
    place, _, told = str(error.value).partition(": ")
    assert re.match(problem, told)
    assert is_in(place, made)
    assert not spark.streams.active
    assert not list(tmp_path.iterdir())


def test_what_is_available_has_no_end_by_the_wall_clock(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = App("ticking", bootstrap_servers="localhost:1")
    payments(app).process(Processor, String(), time=WALL_CLOCK, named="ticker").to("out")
    begin = time.monotonic()
    with pytest.raises(
        BadTopology,
        match=r"^test_streams_mistakes.py:\d+: ticker: its schedules follow the wall clock",
    ):
        app.run_available(spark, checkpoints=tmp_path)
    assert time.monotonic() - begin < 5
