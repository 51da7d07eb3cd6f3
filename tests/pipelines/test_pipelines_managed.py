"""Pipelines from their start to their end: real processes, a real broker, real Spark."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pipeline_tools import SMALL, Pipelines, wait

from ottla.blocking import Admin


@pytest.fixture
def pipelines(tmp_path: Path, bootstrap: str) -> Iterator[Pipelines]:
    found = Pipelines(tmp_path, bootstrap)
    try:
        yield found
    finally:
        found.stop_all()


BIG = """\
source:
  topic: TOPIC
  format: json
  schema: id long, account string, amount double
steps:
  - filter: amount >= LIMIT
  - with: {taxed: amount * 2}
  - select: [account, id, taxed]
sink: {topic: TOPIC.big, key: account}
trigger: 200 ms
"""


def payments(first: int, count: int) -> Iterator[tuple[bytes, bytes]]:
    for number in range(first, first + count):
        value = {"id": number, "account": f"a{number % 50}", "amount": float(number)}
        yield b"key", json.dumps(value).encode()


def ids(records: list[tuple[bytes | None, bytes | None]]) -> list[int]:
    return sorted(json.loads(value or b"")["id"] for _, value in records)


@pytest.mark.timeout(600)
def test_a_pipeline_survives_a_kill_exactly_once_and_its_second_version_takes_over(
    pipelines: Pipelines, topic: str
) -> None:
    pipelines.create(topic, f"{topic}.big")
    file = pipelines.write("big.yaml", BIG.replace("TOPIC", topic).replace("LIMIT", "0"))
    pipelines.send(topic, payments(0, 100))

    started = pipelines("run", file, "--detach", "--json", *SMALL)
    assert (started.code, started.json["state"]) == (0, "running"), started.err
    refused = pipelines("run", file, "--detach", *SMALL)
    assert (refused.code, "is running" in refused.err) == (1, True)

    status = wait(lambda: (one := pipelines.status("big"))["rows_in"] == 100 and one)
    assert (status["rows_out"], status["lag"]["records"]) == (100, 0)
    assert status["outputs"]["topics"] == {f"{topic}.big": f"{topic}.big"}
    assert status["batch_ms"] > 0

    pipelines.send(topic, payments(100, 100))
    os.kill(started.json["pid"], signal.SIGKILL)
    dead = wait(lambda: (one := pipelines("status", "big")).code and one)
    assert "failed" in dead.out
    assert "ended without a word" in dead.out
    assert pipelines("list", "--json").json[0]["state"] == "failed"

    pipelines.send(topic, payments(200, 100))
    assert pipelines("restart", "big", "--json").json["state"] == "running"
    wait(lambda: ids(pipelines.read(f"{topic}.big"))[-1:] == [299])
    assert ids(pipelines.read(f"{topic}.big")) == list(range(300))

    file.write_text(file.read_text().replace("amount >= 0", "amount >= 10"))
    begun = pipelines("reprocess", "big", "--json")
    assert (begun.code, begun.json["state"]) == (0, "running"), begun.err
    found = wait(
        lambda: (one := pipelines("reprocess", "status", "big", "--json").json)["caught_up"] and one
    )
    (output,) = found["outputs"]
    assert (output["old"], output["new"]) == (f"{topic}.big", f"{topic}.big-v2")
    assert (output["rows_old"], output["rows_new"], output["by_key"]) == (300, 290, True)
    assert (output["same"], output["different"]) == (50, 0)
    assert output["records"] == {"same": 290, "only_old": 10, "only_new": 0}
    shown = pipelines("reprocess", "status", "big").out
    assert "Version 2 has caught up" in shown

    switched = pipelines("reprocess", "switch", "big", "--json").json
    assert (switched["current"], switched["stopped"]) == (2, 1)
    assert sum(switched["at"][topic].values()) == 300
    assert switched["outputs"][0]["new"] == f"{topic}.big-v2"
    status = pipelines.status("big")
    assert (status["version"], status["state"]) == (2, "running")
    assert status["outputs"]["topics"] == {f"{topic}.big": f"{topic}.big-v2"}

    assert pipelines("delete", "big", "--yes").code == 1
    assert pipelines("stop", "big", "--json").json["state"] == "stopped"
    assert ids(pipelines.read(f"{topic}.big-v2")) == list(range(10, 300))
    assert "stopped" in pipelines("logs", "big", "--kind", "pipeline").out
    deleted = pipelines("delete", "big", "--yes", "--json").json
    assert (len(deleted["groups"]), deleted["left"]) == (2, [])  # of the sinks of both versions
    assert pipelines("list", "--json").json == []


SHARED = """\
from ottla.streams import App, Json, String

app = App("NAME")
payments = app.stream("TOPIC", key=String(), value=Json("account string"))
(
    payments.group_by(lambda record: record.value.account, String())
    .count(store="counts")
    .to_stream()
    .group_by(lambda record: record.value.cast("string"), String())
    .count(store="accounts")
    .to_stream()
    .to("TOPIC.out")
)
"""


@pytest.mark.timeout(600)
def test_a_cancelled_version_leaves_no_internal_topic_and_no_group(
    pipelines: Pipelines, topic: str
) -> None:
    name = f"shop-{topic[-12:]}"
    pipelines.create(topic, f"{topic}.out")
    text = SHARED.replace("TOPIC", topic).replace("NAME", name)
    file = pipelines.write("shop.py", text)
    pipelines.send(topic, payments(0, 50))
    started = pipelines("run", file, "--detach", "--name", name, "--json", *SMALL)
    assert (started.code, started.json["state"]) == (0, "running"), started.err
    wait(lambda: pipelines.read(f"{topic}.out"))
    with Admin(bootstrap_servers=pipelines.bootstrap) as admin:
        topics, groups = set(admin.list_topics()), group_ids(admin)
        begun = pipelines("reprocess", name, "--json")
        assert (begun.code, begun.json["state"]) == (0, "running"), begun.err
        wait(lambda: pipelines.read(f"{topic}.out-v2"))
        internal = {one for one in set(admin.list_topics()) - topics if one != f"{topic}.out-v2"}
        assert internal
        assert group_ids(admin) > groups
        done = pipelines("reprocess", "cancel", name, "--delete-outputs", "--yes", "--json").json
        assert set(done["internal"]["topics"]) == internal
        assert set(admin.list_topics()) == topics
        assert group_ids(admin) == groups
    assert pipelines.status(name)["state"] == "running"


def group_ids(admin: Admin) -> set[str]:
    return {one.group_id for one in admin.list_consumer_groups()}


FAILING = """\
source: {topic: TOPIC, format: json, schema: "id long, amount double"}
steps:
  - filter: id > 0
  - python: steps.py:checked
sink: {path: checked}
"""
STEPS = """\
from limits import LIMIT


def checked(frame):
    def each(batches):
        for batch in batches:
            if (batch.amount > LIMIT).any():
                raise ValueError("more than anybody has")
            yield batch

    return frame.mapInPandas(each, frame.schema)
"""


@pytest.mark.timeout(600)
def test_records_land_raw_in_files_and_a_failure_names_its_step_and_its_record(
    pipelines: Pipelines, topic: str
) -> None:
    pipelines.create(topic, partitions=1)
    sent = [
        (f"k{one}".encode(), json.dumps({"id": one, "amount": one}).encode()) for one in range(40)
    ]
    sent[0] = (b"\xff\x00", sent[0][1])
    sent[7] = (b"k7", json.dumps({"id": 7, "amount": 1e9}).encode())
    pipelines.send(topic, sent, headers=[("origin", b"\x01")], timestamp_ms=1_700_000_000_123)

    raw = pipelines.write("raw.yaml", f"source: {topic}\nsink: {{path: lake/raw}}\n")
    landed = pipelines("run", raw, "--once", "--json", *SMALL)
    assert (landed.code, landed.json["state"]) == (0, "finished"), landed.err
    assert (landed.json["rows_in"], landed.json["rows_out"]) == (40, 40)
    rows = pq.read_table(pipelines.folder / "lake" / "raw").to_pylist()
    rows.sort(key=lambda row: row["offset"])
    assert [(row["key"], row["value"]) for row in rows] == sent
    assert {row["timestamp"].timestamp() for row in rows} == {1_700_000_000.123}
    assert rows[0]["headers"] == [{"key": "origin", "value": b"\x01"}]

    pipelines.write("steps.py", STEPS)
    pipelines.write("limits.py", "LIMIT = 1000\n")
    failing = pipelines.write("failing.yaml", FAILING.replace("TOPIC", topic))
    failed = pipelines("run", failing, "--once", "--name", "strict", *SMALL)
    assert failed.code == 1
    assert f"step 2 (python, line 4) failed at record {topic}-0@7" in failed.err
    assert "ValueError: more than anybody has (steps.py line 8, in each)" in failed.err
    assert pipelines.status("strict")["error"] in failed.err


def test_what_is_wrong_is_said_before_spark_starts(pipelines: Pipelines, topic: str) -> None:
    absent = pipelines.write("absent.yaml", f"source: {topic}\nsink: {{topic: out}}\n")
    refused = pipelines("run", absent)
    assert refused.code == 1
    assert f"ottla topics create {topic}" in refused.err
    wrong = pipelines.write("wrong.yaml", "source: a\nsink: {topc: b}\n")
    assert f"{wrong}:2: sink: wants either" in pipelines("run", wrong).err
    empty = pipelines.write("empty.py", "x = 1\n")
    assert "has neither `app = App(...)`" in pipelines("run", empty).err
    assert "--option" in pipelines("run", absent, "--option", "master=x").err
    assert "'soon' is no length of time" in pipelines("run", absent, "--trigger", "soon").err
    assert "there is no pipeline 'x'" in pipelines("stop", "x").err
    assert "there is no pipeline 'x'" in pipelines("reprocess", "x").err
