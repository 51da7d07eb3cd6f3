"""Folders that change hands: Kafka's log opens in Ottla, and Ottla's in Kafka."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.brokers import Broker, Kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from broker_harness import MakeBroker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PER_CODEC = 400
RECORDS = PER_CODEC * len(CODECS)
START_MS = 1_700_000_000_000
# What belongs to a log; partition.metadata stays, since the topic id is each cluster's own.
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
    config = {"segment.bytes": str(1 << 20), "retention.ms": "-1"}
    admin.create_topics([NewTopic(topic, 1, config=config)])[topic].result(30)
    time.sleep(0.5)


def fill(broker: Broker, topic: str) -> None:
    number = 0
    for codec in CODECS:
        settings = {"compression.type": codec, "batch.size": 8000, "linger.ms": 1}
        producer = Producer(
            {"bootstrap.servers": broker.address, "enable.idempotence": True, **settings}
        )
        for _ in range(PER_CODEC):
            producer.produce(topic, value(number), b"%d" % number, timestamp=START_MS + number)
            number += 1
        assert producer.flush(30) == 0


def value(number: int) -> bytes:
    return b"value %06d " % number * 100


def hand_over(giver: Broker, taker: Broker, topic: str) -> None:
    source, target = (one.data / f"{topic}-0" for one in (giver, taker))
    for pattern in MOVED:
        for path in target.glob(pattern):
            path.unlink()
        for path in source.glob(pattern):
            shutil.copy2(path, target)
    # As after a crash: the new owner looks at every byte itself.
    (taker.data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for path in taker.data.glob("*-offset-checkpoint"):
        path.unlink()


def assert_readable(broker: Broker, topic: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "not-joined",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    for number in range(RECORDS):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        assert message.offset() == number
        assert (message.key(), message.value()) == (b"%d" % number, value(number))
    consumer.close()
    admin = AdminClient({"bootstrap.servers": broker.address})
    place = TopicPartition(topic, 0)
    wanted = {place: OffsetSpec.for_timestamp(START_MS + 1234)}
    assert admin.list_offsets(wanted)[place].result(30).offset == 1234


def assert_writable(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    offsets: list[int] = []
    producer.produce(
        topic, b"next", on_delivery=lambda _, message: offsets.append(message.offset())
    )
    assert producer.flush(30) == 0
    assert offsets == [RECORDS]


def exchange(giver: Broker, taker: Broker, topic: str) -> None:
    giver.start()
    create(giver, topic)
    fill(giver, topic)
    giver.stop()
    taker.start()
    create(taker, topic)
    taker.stop()
    hand_over(giver, taker, topic)
    taker.start()
    assert_readable(taker, topic)
    assert_writable(taker, topic)


def test_interop_a_log_written_by_kafka_opens_in_ottla(
    fresh_broker: MakeBroker, kafka: Kafka, topic: str
) -> None:
    exchange(kafka, fresh_broker(start=False), topic)


def test_interop_a_log_written_by_ottla_opens_in_kafka(
    fresh_broker: MakeBroker, kafka: Kafka, topic: str
) -> None:
    exchange(fresh_broker(start=False), kafka, topic)
