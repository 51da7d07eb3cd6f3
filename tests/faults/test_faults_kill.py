"""`kill -9` in the middle of a load, again and again: what was acknowledged is there, once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from bench.brokers import Broker
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

ROUNDS = 20
ROUNDS_ON_KAFKA = 3  # it takes ten seconds to come back
PARTITIONS = 3
SEED = 20_260_101
UNGROUPED = {"group.id": "not-joined", "enable.auto.commit": False}


class Load:
    """A producer that never retries, so that a record can be stored at most once."""

    def __init__(self, bootstrap: str, topic: str, first: int) -> None:
        self.topic = topic
        self.next = first
        self.acknowledged: list[tuple[int, int, int]] = []  # partition, offset, number
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "retries": 0,
                "enable.idempotence": False,
                "linger.ms": 1,
                "log_level": 0,
            }
        )

    def run_until(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            for _ in range(50):
                value = b"%012d" % self.next + b"x" * 100
                place = self.next % PARTITIONS
                self._producer.produce(self.topic, value, partition=place, on_delivery=self._report)
                self.next += 1
            self._producer.poll(0.001)

    def end(self) -> None:
        """Give up on whatever the dead broker did not answer; take in the answers it gave."""
        self._producer.flush(0.2)
        self._producer.purge()
        self._producer.flush(5)

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            number = int(message.value()[:12])
            self.acknowledged.append((message.partition(), message.offset(), number))


def create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(30)


def topics_of(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics)


def stored(bootstrap: str, topic: str) -> dict[tuple[int, int], int]:
    """Every record: (partition, offset) to its number."""
    consumer = Consumer({"bootstrap.servers": bootstrap, **UNGROUPED})
    places = [TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(place, 30)[1] for place in places]
    consumer.assign(places)
    found: dict[tuple[int, int], int] = {}
    while len(found) < sum(ends):
        messages = consumer.consume(10_000, 10)
        assert messages, f"only {len(found)} of {sum(ends)} records can be read"
        for message in messages:
            assert message.error() is None
            found[message.partition(), message.offset()] = int(message.value()[:12])
    consumer.close()
    return found


@pytest.mark.timeout(240)
def test_faults_kill_loses_doubles_and_reorders_nothing_that_was_acknowledged(
    fresh_broker: Callable[..., Broker], topic: str
) -> None:
    chance = random.Random(SEED)
    # Small segments, so that kills also fall into rolls.
    broker = fresh_broker({"log.segment.bytes": str(2 << 20)})
    create(broker.address, topic, PARTITIONS)
    acknowledged: list[tuple[int, int, int]] = []
    made = {topic}
    number = 0
    for round_number in range(ROUNDS if broker.name == "Ottla" else ROUNDS_ON_KAFKA):
        load = Load(broker.address, topic, number)
        load.run_until(time.monotonic() + chance.uniform(0.4, 0.8))
        if round_number % 4 == 0:
            made.add(f"{topic}-{round_number}")
            create(broker.address, f"{topic}-{round_number}", 1)
        broker.kill()
        load.end()
        assert load.acknowledged, f"round {round_number}: nothing was acknowledged"
        acknowledged += load.acknowledged
        number = load.next
        broker.start()

    assert made <= topics_of(broker.address)
    found = stored(broker.address, topic)
    lost = [entry for entry in acknowledged if found.get(entry[:2]) != entry[2]]
    assert lost == [], f"{len(lost)} of {len(acknowledged)} acknowledged records are not in place"
    assert len(set(found.values())) == len(found), "a record was stored twice"
    for partition in range(PARTITIONS):
        ordered = [value for (place, _), value in sorted(found.items()) if place == partition]
        assert ordered == sorted(ordered)


def test_faults_kill_keeps_deletions_settings_and_the_log_start(
    fresh_broker: Callable[..., Broker], topic: str
) -> None:
    broker = fresh_broker()
    admin = AdminClient({"bootstrap.servers": broker.address})
    create(broker.address, topic, 1)
    create(broker.address, topic + "-gone", 1)
    producer = Producer({"bootstrap.servers": broker.address})
    for value in range(100):
        producer.produce(topic, b"%d" % value)
    assert producer.flush(30) == 0
    admin.delete_topics([topic + "-gone"])[topic + "-gone"].result(30)
    admin.delete_records([TopicPartition(topic, 0, 40)])[TopicPartition(topic, 0)].result(30)
    broker.kill()
    broker.start()
    assert topic in topics_of(broker.address)
    assert topic + "-gone" not in topics_of(broker.address)
    consumer = Consumer({"bootstrap.servers": broker.address, **UNGROUPED})
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)
    consumer.close()
    # The start of the log is checkpointed once a minute: a kill may bring deleted records back,
    # as it may in Kafka, but never takes others away.
    assert low in (0, 40)
    assert high == 100
