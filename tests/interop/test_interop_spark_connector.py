"""Spark's own Kafka connector, the one in Scala, reads and writes our topics."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from bench.brokers import Broker

import fetch_spark_kafka
from broker_harness import missing
from ottla import AnyRecord, TopicPartition
from ottla.blocking import Admin, Consumer, Producer

JOBS = Path(__file__).with_name("spark_connector_jobs.py")
CHILD_TIMEOUT_S = 110
PARTS = 2
RECORDS_PER_PART = 50


@pytest.fixture(scope="module")
def jars() -> str:
    if shutil.which("java") is None:
        missing("java is not installed (17 or newer)")
    folder = fetch_spark_kafka.find()
    if folder is None:
        pytest.skip("no jars of Spark's Kafka connector: run scripts/fetch_spark_kafka.py")
    return ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))


@pytest.fixture(scope="module")
def prefix() -> str:
    return f"connector-{uuid.uuid4().hex[:8]}-"


@pytest.fixture(scope="module")
def report(broker: Broker, jars: str, prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the connector saw, after all of its jobs: one JVM for every test of this module."""
    fill(broker.address, prefix)
    folder = tmp_path_factory.mktemp("connector")
    done = subprocess.run(
        [sys.executable, str(JOBS), jars, broker.address, str(folder), prefix],
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def fill(bootstrap: str, prefix: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        for topic in ("written", "mixed", "timed", "copied", "part-1", "part-2"):
            admin.create_topic(prefix + topic, partitions=2)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(1, 6):
            # In turns: the connector insists that every partition has something that late.
            place = {"partition": number % 2, "timestamp_ms": number * 1000}
            producer.send(prefix + "timed", b"t%d" % number, **place)
        for number in range(RECORDS_PER_PART):
            for part in range(1, PARTS + 1):
                value = b"%d %d" % (part, number)
                producer.send(f"{prefix}part-{part}", value, headers=[("part", b"%d" % part)])
    fill_in_transactions(bootstrap, prefix + "mixed")


def fill_in_transactions(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send(topic, b"%d kept" % number if number % 2 else b"%d dropped" % number)
            if number % 2:
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()


def read_all(bootstrap: str, topic: str) -> list[AnyRecord]:
    partitions = [TopicPartition(topic, number) for number in range(2)]
    found: list[AnyRecord] = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(one) < ends[one] for one in partitions):
            for records in consumer.poll(timeout_ms=1000).values():
                found += records
    return found


def test_what_the_connector_writes_has_its_keys_values_and_headers(
    report: dict[str, Any], broker: Broker, prefix: str
) -> None:
    records = read_all(broker.address, prefix + "written")
    assert report["written"] == len(records) == 40
    found = {record.key: (record.value, record.headers) for record in records}
    expected = {
        b"k%d" % n: (b"v%d" % n, [("number", str(n).encode())]) for n in range(len(records))
    }
    assert {key: (value, list(headers)) for key, (value, headers) in found.items()} == expected


def test_the_connector_reads_headers(report: dict[str, Any]) -> None:
    assert report["headers"] == [[["number", "7"]]]


def test_the_connector_reads_committed_records_only_when_asked_to(report: dict[str, Any]) -> None:
    assert report["committed"] == ["1 kept", "3 kept"]
    assert report["uncommitted"] == ["0 dropped", "1 kept", "2 dropped", "3 kept"]


def test_the_connector_finds_offsets_by_time(report: dict[str, Any]) -> None:
    assert report["from_time"] == ["t3", "t4", "t5"]
    assert report["between"] == ["t2", "t3"]


def test_a_stream_of_a_pattern_is_copied_in_limited_batches_and_goes_on_where_it_ended(
    report: dict[str, Any], broker: Broker, prefix: str
) -> None:
    first, second = report["streamed"]
    assert sum(first) == PARTS * RECORDS_PER_PART
    assert len(first) > 1
    assert max(first) <= 30
    assert sum(second) == 10
    copies = [record.value for record in read_all(broker.address, prefix + "copied")]
    expected = {b"%d %d" % (p, n) for p in range(1, PARTS + 1) for n in range(RECORDS_PER_PART)}
    expected |= {b"v%d" % number for number in range(10)}
    assert set(copies) == expected
    assert len(copies) == len(expected)
