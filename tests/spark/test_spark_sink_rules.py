"""The sink's pure rules: names that say whose a transaction is, decisions as text, choices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    IntegerType,
    MapType,
    StringType,
    StructType,
)

from ottla.client.errors import BadSetting
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.spark.sink.decisions import NOTHING, Decision, Head, Part, Verdict, Write, judge
from ottla.spark.sink.errors import BadRows
from ottla.spark.sink.names import TaskId, driver_id, short_run
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.query_id import query_of
from ottla.spark.sink.rows import Rows

APPS = st.text(max_size=30) | st.from_regex(r"a-[0-9a-f]{8}-[01]-[0-9]-[0-9]", fullmatch=True)
RUNS = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)
NUMBERS = st.integers(0, 10_000)
IDS = st.builds(TaskId, APPS, RUNS, st.integers(0, 1), NUMBERS, NUMBERS)
SERVER = {"kafka.bootstrap.servers": "localhost:9092"}


@given(IDS, APPS)
def test_a_transactional_id_says_whose_it_is_whatever_applications_are_called(
    name: TaskId, app: str
) -> None:
    assert TaskId.parse(str(name)) == name
    assert TaskId.parse(driver_id(app)) is None
    assert str(name) != driver_id(app)


def test_a_run_is_told_by_an_id_that_is_its_own() -> None:
    assert short_run("0b0e2f3a-5f2c-4b51-9a52-3f8f3f0f9f7d") == "0b0e2f3a"
    assert short_run("nightly load") is None


HEADS = st.builds(Head, NUMBERS, NUMBERS, NUMBERS, RUNS, st.booleans(), st.integers(-1, 9), NUMBERS)
PARTS = st.builds(
    Part, NUMBERS, st.builds(PreparedTransaction, IDS.map(str), NUMBERS, st.integers(0, 32766))
)


@given(HEADS, st.lists(PARTS, max_size=5).map(tuple))
def test_a_decision_can_be_read_again(head: Head, parts: tuple[Part, ...]) -> None:
    assert Head.parse(head.text()) == head
    decision = Decision(head, parts)
    assert Decision.parse(decision.text()) == decision


def test_a_decision_of_a_newer_version_is_not_guessed_at() -> None:
    text = NOTHING.text().replace('"v":1', '"v":2')
    with pytest.raises(ValueError, match="a newer version of the sink"):
        Head.parse(text)


@pytest.mark.parametrize(
    ("decided", "finished", "version", "planned_turn", "verdict"),
    [
        (3, True, 4, None, Verdict.DECIDE),
        (3, False, 4, None, Verdict.DECIDE),
        (4, False, 4, None, Verdict.FINISH),
        (4, True, 4, None, Verdict.PASSED),
        (5, False, 4, None, Verdict.PASSED),
        (3, True, 9, 4, Verdict.DECIDE),
        (3, True, 9, 3, Verdict.OVERTAKEN),
    ],
)
def test_what_is_decided_says_what_to_do(
    decided: int, finished: bool, version: int, planned_turn: int | None, verdict: Verdict
) -> None:
    head = Head(decided, decided, 7, "00000001", finished)
    turn = version if planned_turn is None else planned_turn
    write = Write("app", version, turn, "00000002", (), planned=planned_turn is not None)
    assert judge(head, write) is verdict


TEXT, BYTES, INT = StringType(), BinaryType(), IntegerType()


def pairs(key: str, value: str) -> ArrayType:
    return ArrayType(StructType().add(key, TEXT).add(value, BYTES))


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("value", StructType().add("a", INT), "'value' is struct<a:int>, and must be string or b"),
        ("key", INT, "column 'key' is int"),
        ("partition", TEXT, "column 'partition' is string, and must be int"),
        ("timestamp", DateType(), "column 'timestamp' is date"),
        ("topic", INT, "column 'topic' is int"),
        ("headers", ArrayType(TEXT), "must be array<struct<key:string,value:binary>>"),
        ("headers", pairs("k", "v"), "column 'headers' is array<struct<k:string,v:binary>>"),
    ],
)
def test_columns_of_wrong_types_are_named(name: str, kind: DataType, problem: str) -> None:
    schema = StructType() if name == "value" else StructType().add("value", TEXT)
    with pytest.raises(BadRows, match=re.escape(problem)):
        Rows.of(schema.add(name, kind), "out")


def test_columns_are_those_that_are_there() -> None:
    schema = StructType().add("value", BYTES).add("other", INT).add("topic", TEXT)
    for headers in (pairs("key", "value"), MapType(TEXT, BYTES)):
        full = StructType([*schema.fields]).add("headers", headers)
        assert set(Rows.of(full, None).columns) == {"value", "topic", "headers"}
        assert set(Rows.of(full, "out").columns) == {"value", "headers"}
    with pytest.raises(BadRows, match="no topic"):
        Rows.of(StructType().add("value", TEXT), None)
    with pytest.raises(BadRows, match="there is no column 'value'"):
        Rows.of(StructType().add("Value", TEXT), "out")


@pytest.mark.parametrize(
    ("options", "streaming", "problem"),
    [
        ({"txnAppId": "a", "txnVersion": "1"}, True, "txnAppId: is for batch writes"),
        ({"txnAppId": "a", "txnVersion": "-1"}, False, "txnVersion: '-1' is not"),
        ({"txnVersion": "1"}, False, "^txnAppId: is missing: txnVersion is 1, and it must say of"),
        ({"txnAppId": "a"}, False, "^txnVersion: is missing: txnAppId is 'a', and each of its"),
        ({"txnAppId": "", "txnVersion": "1"}, False, "^txnAppId: is missing"),
        ({"kafka.acks": "0"}, True, "^kafka.acks: is 0, and exactly once needs all: leave it out"),
        ({"Kafka.Acks": "1"}, False, "^kafka.acks: is 1, and exactly once needs all"),
        ({"kafka.retries": "0"}, True, "^kafka.retries: is 0, and exactly once needs more than 0"),
        (
            {"kafka.max.in.flight.requests.per.connection": "6"},
            True,
            "^kafka.max.in.flight.requests.per.connection: is 6, and exactly once needs at most 5",
        ),
        (
            {"kafka.acks": "0", "deliveryGuarantee": "at-least-once"},
            True,
            "^kafka.acks: is 0: nobody would know",
        ),
        ({"lostTransactions": "maybe"}, True, "'maybe' is none of: fail, rewrite, skip"),
        ({"decisionTopic": "x"}, True, "did you mean decisionsTopic"),
        ({"security.protocol": "SSL"}, True, "did you mean kafka.security.protocol"),
        ({"kafka.transactional.id": "x"}, True, "cannot be set"),
        ({"kafka.linger": "x"}, True, "did you mean kafka.linger.ms"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], streaming: bool, problem: str) -> None:
    with pytest.raises(BadSetting, match=problem):
        SinkOptions.read({**SERVER, **options}, streaming=streaming)


def test_one_acknowledgement_is_enough_for_at_least_once() -> None:
    given = {**SERVER, "kafka.acks": "1", "deliveryGuarantee": "at-least-once"}
    assert not SinkOptions.read(given, streaming=True).is_exactly_once


def test_options_of_other_parts_are_left_alone() -> None:
    given_too = {"subscribe": "x", "checkpointLocation": "/x", "Topic": "out", "kafka.acks": "all"}
    found = SinkOptions.read({**SERVER, **given_too}, streaming=True)
    assert found.topic == "out"
    assert found.is_exactly_once


def test_the_id_of_a_query_is_in_its_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    assert query_of(str(folder)) is None
    (folder / "metadata").write_text('{"id":"0b0e2f3a"}')
    assert query_of(str(folder)) == "0b0e2f3a"
    assert query_of(folder.as_uri()) == "0b0e2f3a"
    assert query_of("hdfs://somewhere/checkpoint") is None
