"""Transactions in folders that change hands, and in the eyes of Kafka's own tool."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.brokers import Broker, Kafka, run_java
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker_harness import MakeBroker

TRANSACTIONS = 12
RECORDS = 5
MOVED = ("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-epoch-checkpoint")

pytestmark = pytest.mark.ottla_only


@pytest.fixture
def kafka(kafka_libs: Path, tmp_path: Path) -> Iterator[Kafka]:
    broker = Kafka(tmp_path / "kafka", libs=kafka_libs)
    try:
        yield broker
    finally:
        broker.remove()


def create(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    time.sleep(0.5)


def is_committed(number: int) -> bool:
    return number % 3 != 1


def run_transactions(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for index in range(RECORDS):
            producer.produce(topic, b"%d %d" % (number, index), partition=0)
        assert producer.flush(30) == 0
        if is_committed(number):
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def committed_values() -> list[str]:
    return [
        f"{number} {index}"
        for number in range(TRANSACTIONS)
        if is_committed(number)
        for index in range(RECORDS)
    ]


def read_committed(broker: Broker, topic: str) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[str] = []
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            values.append(message.value().decode())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return values
    raise AssertionError(f"the end was not reached; read so far: {values}")


def exchange(giver: Broker, taker: Broker, topic: str, *, trusting: bool) -> None:
    """`trusting`: the new owner takes all files as they are, as after a clean shutdown."""
    giver.start()
    create(giver, topic)
    run_transactions(giver, topic)
    assert read_committed(giver, topic) == committed_values()
    giver.stop()
    taker.start()
    create(taker, topic)
    taker.stop()
    source, target = (one.data / f"{topic}-0" for one in (giver, taker))
    for pattern in MOVED:
        for path in target.glob(pattern):
            path.unlink()
        for path in source.glob(pattern):
            shutil.copy2(path, target)
    if not trusting:
        (taker.data / ".kafka_cleanshutdown").unlink(missing_ok=True)
        for path in taker.data.glob("*-offset-checkpoint"):
            path.unlink()
    taker.start()
    assert read_committed(taker, topic) == committed_values()


@pytest.mark.parametrize("trusting", [True, False])
def test_interop_transactions_written_by_kafka_are_read_by_ottla(
    fresh_broker: MakeBroker, kafka: Kafka, topic: str, trusting: bool
) -> None:
    exchange(kafka, fresh_broker(start=False), topic, trusting=trusting)


@pytest.mark.parametrize("trusting", [True, False])
def test_interop_transactions_written_by_ottla_are_read_by_kafka(
    fresh_broker: MakeBroker, kafka: Kafka, topic: str, trusting: bool
) -> None:
    exchange(fresh_broker(start=False), kafka, topic, trusting=trusting)


def test_interop_kafka_s_tool_reads_our_transactions(
    fresh_broker: MakeBroker, kafka_libs: Path, topic: str
) -> None:
    broker = fresh_broker()
    create(broker, topic)
    run_transactions(broker, topic)
    broker.stop()
    folder = broker.data / f"{topic}-0"
    (index,) = folder.glob("*.txnindex")
    snapshot = max(folder.glob("*.snapshot"))
    files = f"{index},{snapshot},{index.with_suffix('.log')}"
    shown = run_java(
        kafka_libs, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", files
    ).stdout
    size = RECORDS + 1
    expected = [
        (number * size, number * size + RECORDS, (number + 1) * size)
        for number in range(TRANSACTIONS)
        if not is_committed(number)
    ]
    found = re.findall(r"firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", shown)
    assert [tuple(map(int, entry)) for entry in found] == expected
    markers = re.findall(r"endTxnMarker: (COMMIT|ABORT)", shown)
    assert markers == [
        "COMMIT" if is_committed(number) else "ABORT" for number in range(TRANSACTIONS)
    ]
    assert "coordinatorEpoch: 0 currentTxnFirstOffset: OptionalLong.empty" in shown
