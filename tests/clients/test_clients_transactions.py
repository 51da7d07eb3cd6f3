"""Transactions as clients use them: librdkafka speaks the first protocol, Kafka's own the second.

What is checked here is that a commit is a commit, that aborted records are never seen by readers of
committed ones, that a producer which was replaced is shut out, and that time puts an end to it all.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.brokers import Broker
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from broker_harness import TARGET

JAVA_PROGRAM = Path(__file__).parent / "java" / "TransactionalClient.java"
WAIT_S = 20


@pytest.fixture
def three_partitions(bootstrap: str, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_topics([NewTopic(topic, 3, 1)]).values():
        done.result(WAIT_S)
    return topic


def producer(bootstrap: str, name: str, **more: object) -> Producer:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name, **more}
    made = Producer(settings)
    made.init_transactions(WAIT_S)
    return made


def read(bootstrap: str, topic: str, *, committed: bool, partitions: int = 3) -> list[str]:
    """All there is to read, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-of-{topic}",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values: dict[int, list[str]] = {}
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"the reader is stuck; it has read {values}"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            values.setdefault(message.partition(), []).append(message.value().decode())
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF
            ended.add(message.partition())
    consumer.close()
    return [value for _, found in sorted(values.items()) for value in found]


def test_committed_records_are_read_and_aborted_ones_are_not(
    bootstrap: str, three_partitions: str
) -> None:
    topic = three_partitions
    writer = producer(bootstrap, topic)
    expected = []
    for number in range(12):
        writer.begin_transaction()
        for partition in range(3):
            writer.produce(topic, f"{partition}-{number:02}".encode(), partition=partition)
        if number % 3 == 1:
            assert writer.flush(WAIT_S) == 0
            writer.abort_transaction(WAIT_S)
        else:
            writer.commit_transaction(WAIT_S)
            expected += [f"{partition}-{number:02}" for partition in range(3)]
    assert read(bootstrap, topic, committed=True) == sorted(expected)
    assert len(read(bootstrap, topic, committed=False)) == 36


def test_an_open_transaction_holds_back_readers_of_committed_records(
    bootstrap: str, three_partitions: str
) -> None:
    topic = three_partitions
    writer = producer(bootstrap, topic)
    writer.begin_transaction()
    writer.produce(topic, b"open", partition=0)
    assert writer.flush(WAIT_S) == 0
    other = Producer({"bootstrap.servers": bootstrap})
    other.produce(topic, b"behind it", partition=0)
    assert other.flush(WAIT_S) == 0
    assert read(bootstrap, topic, committed=True) == []
    assert read(bootstrap, topic, committed=False) == ["open", "behind it"]
    writer.commit_transaction(WAIT_S)
    assert read(bootstrap, topic, committed=True) == ["open", "behind it"]


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_are_committed_with_the_records_or_not_at_all(
    bootstrap: str, three_partitions: str, commit: bool
) -> None:
    topic = three_partitions
    group = f"group-of-{topic}"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    deadline = time.monotonic() + WAIT_S
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.2)
    writer = producer(bootstrap, topic)
    writer.begin_transaction()
    writer.produce(topic, b"with offsets", partition=0)
    writer.send_offsets_to_transaction(
        [TopicPartition(topic, 1, 17)], consumer.consumer_group_metadata(), WAIT_S
    )
    if commit:
        writer.commit_transaction(WAIT_S)
    else:
        writer.abort_transaction(WAIT_S)
    (found,) = consumer.committed([TopicPartition(topic, 1)], WAIT_S)
    assert found.offset == (17 if commit else -1001)
    consumer.close()


def test_a_replaced_producer_is_shut_out(bootstrap: str, three_partitions: str) -> None:
    topic = three_partitions
    zombie = producer(bootstrap, topic)
    zombie.begin_transaction()
    zombie.produce(topic, b"of the zombie", partition=0)
    assert zombie.flush(WAIT_S) == 0
    present = producer(bootstrap, topic)
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(WAIT_S)
    assert refused.value.args[0].code() == KafkaError._FENCED
    present.begin_transaction()
    present.produce(topic, b"of the present one", partition=0)
    present.commit_transaction(WAIT_S)
    assert read(bootstrap, topic, committed=True) == ["of the present one"]


def test_a_producer_that_takes_too_long_loses_its_transaction(
    bootstrap: str, three_partitions: str
) -> None:
    topic = three_partitions
    slow = producer(bootstrap, topic, **{"transaction.timeout.ms": 1000})
    slow.begin_transaction()
    slow.produce(topic, b"too late", partition=0)
    assert slow.flush(WAIT_S) == 0
    # Kafka looks for overdue transactions every 10 s.
    deadline = time.monotonic() + 25
    while not is_ended(bootstrap, topic):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    with pytest.raises(KafkaException):
        slow.commit_transaction(WAIT_S)
    assert read(bootstrap, topic, committed=True) == []


def is_ended(bootstrap: str, topic: str) -> bool:
    """Whether readers of committed records get to the end of the partition."""
    from confluent_kafka import IsolationLevel
    from confluent_kafka.admin import OffsetSpec

    admin = AdminClient({"bootstrap.servers": bootstrap})
    where = TopicPartition(topic, 0)

    def end(level: IsolationLevel) -> int:
        asked = admin.list_offsets({where: OffsetSpec.latest()}, isolation_level=level)
        offset: int = asked[where].result(WAIT_S).offset
        return offset

    return end(IsolationLevel.READ_COMMITTED) == end(IsolationLevel.READ_UNCOMMITTED)


def test_transactions_survive_the_death_of_the_broker(
    fresh_broker: Callable[..., Broker], topic: str
) -> None:
    broker = fresh_broker()
    admin = AdminClient({"bootstrap.servers": broker.address})
    for done in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        done.result(WAIT_S)
    writer = producer(broker.address, topic)
    for number in range(4):
        writer.begin_transaction()
        writer.produce(topic, f"before-{number}".encode(), partition=0)
        if number == 2:
            assert writer.flush(WAIT_S) == 0
            writer.abort_transaction(WAIT_S)
        else:
            writer.commit_transaction(WAIT_S)
    writer.begin_transaction()
    writer.produce(topic, b"during", partition=0)
    assert writer.flush(WAIT_S) == 0
    broker.kill()
    broker.start()
    writer.commit_transaction(WAIT_S)
    expected = ["before-0", "before-1", "before-3", "during"]
    assert read(broker.address, topic, committed=True, partitions=1) == expected


def test_kafkas_own_producer_by_the_second_protocol(
    bootstrap: str, three_partitions: str, kafka_libs: Path
) -> None:
    topic = three_partitions
    # Kafka looks for overdue transactions every 10 s.
    too_late_ms = "12000" if TARGET == "kafka" else "2000"
    done = subprocess.run(
        ["java", "-cp", f"{kafka_libs}/*", str(JAVA_PROGRAM), bootstrap, topic, too_late_ms],
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "committed",
        "aborted",
        "offsets committed",
        "zombie: ProducerFencedException",
        "second committed",
        "slow: InvalidTxnStateException",
    ], done.stderr
    found = set(read(bootstrap, topic, committed=True))
    assert found == {f"committed-{n}" for n in range(20)} | {"with-offsets", "of the second"}
    offsets = committed_offsets(bootstrap, f"group-of-{topic}")
    assert {(one.topic, one.partition): one.offset for one in offsets} == {(topic, 0): 7}


def committed_offsets(bootstrap: str, group: str) -> list[TopicPartition]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found: list[TopicPartition] = asked[group].result(WAIT_S).topic_partitions
    return found
