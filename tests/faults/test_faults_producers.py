"""Producers that live through the death of their broker: each record is stored once, each
transaction whole or not at all."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from bench.brokers import Broker
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from broker_harness import TARGET

PARTITIONS = 3
SEED = 20_260_202
ROUNDS = 12 if TARGET == "ottla" else 3  # Kafka takes ten seconds to come back
RECORDS_A_TRANSACTION = 12
QUIET = {"log_level": 0}
SMALL_SEGMENTS = {"log.segment.bytes": str(1 << 20)}


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(30)


class Work(threading.Thread):
    """What goes on while the broker comes and goes. (The broker must be started by the main thread:
    it ends with the thread that started it.)"""

    def __init__(self, step: Callable[[], None]) -> None:
        super().__init__()
        self._step = step
        self._ended = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                self._step()
        except BaseException as error:
            self.failure = error

    def __enter__(self) -> Work:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()
        assert self.failure is None, self.failure


def make_trouble(broker: Broker, done: Callable[[], int]) -> None:
    """End and start the broker again and again, killed or stopped in good order, each time some
    moments after the clients got something `done`."""
    chance = random.Random(SEED)
    for number in range(ROUNDS):
        before, deadline = done(), time.monotonic() + 30
        while done() == before:
            assert time.monotonic() < deadline, f"nothing gets done after {number} ends"
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))
        if number % 3 == 2:
            broker.stop(signal.SIGTERM)
        else:
            broker.kill()
        broker.start()


def read_all(bootstrap: str, topic: str, isolation: str) -> dict[int, list[str]]:
    """Everything up to the end, by partition; fails if the reader gets stuck before that."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    places = [TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)]
    consumer.assign(places)
    found: dict[int, list[str]] = {index: [] for index in range(PARTITIONS)}
    reached: dict[int, int] = {}
    deadline = time.monotonic() + 60
    while len(reached) < PARTITIONS:
        assert time.monotonic() < deadline, f"stuck after {reached}"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition()].append(message.value().decode())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            reached[message.partition()] = message.offset()
    for place in places:
        high = consumer.get_watermark_offsets(place, 30)[1]
        assert reached[place.partition] == high, "a finished transaction holds readers back"
    consumer.close()
    return found


@pytest.mark.timeout(240)
def test_faults_an_idempotent_producer_stores_each_record_once_and_in_order(
    fresh_broker: Callable[..., Broker], topic: str
) -> None:
    broker = fresh_broker(SMALL_SEGMENTS)
    create(broker.address, topic)
    failed: list[KafkaError] = []
    delivered = 0

    def report(error: KafkaError | None, message: Message) -> None:
        nonlocal delivered
        if error is not None:
            failed.append(error)
        delivered += 1

    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "enable.idempotence": True,
            "batch.num.messages": 20,
            "linger.ms": 1,
            "message.timeout.ms": 120_000,
            "reconnect.backoff.max.ms": 100,
            **QUIET,
        }
    )
    count = 0

    def send_some() -> None:
        nonlocal count
        for _ in range(60):
            place = count % PARTITIONS
            producer.produce(topic, b"%d" % count, partition=place, on_delivery=report)
            count += 1
        producer.poll(0.002)
        if len(producer) > 20_000:
            producer.poll(0.05)

    with Work(send_some):
        make_trouble(broker, lambda: delivered)
    assert producer.flush(120) == 0
    assert failed == []
    found = read_all(broker.address, topic, "read_uncommitted")
    for partition, values in found.items():
        expected = [str(number) for number in range(partition, count, PARTITIONS)]
        assert values == expected, f"partition {partition} of {count} records"


class Transactions:
    """Transactions of known content, some aborted on purpose, retried or given up as told."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._chance = random.Random(SEED)
        self._producer: Producer | None = None
        self.number = 0
        self.committed: set[int] = set()
        self.aborted: set[int] = set()

    def run_one(self) -> None:
        number, self.number = self.number, self.number + 1
        commit = self._chance.random() < 0.7
        try:
            self._attempt(number, commit=commit)
        except KafkaException as error:
            self._recover(number, error.args[0])

    def _attempt(self, number: int, *, commit: bool) -> None:
        producer = self.producer()
        producer.begin_transaction()
        for index in range(RECORDS_A_TRANSACTION):
            value = b"%d %d" % (number, index)
            producer.produce(self._topic, value, partition=index % PARTITIONS)
        if commit:
            self._persist(lambda: producer.commit_transaction(30))
            self.committed.add(number)
        else:
            producer.flush(30)
            self._persist(lambda: producer.abort_transaction(30))
            self.aborted.add(number)

    def _persist(self, step: Callable[[], object]) -> None:
        """As the documentation asks: try again for as long as the error says so."""
        while True:
            try:
                step()
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def _recover(self, number: int, error: KafkaError) -> None:
        """Outcome unknown, unless the transaction could be aborted."""
        producer = self._producer
        if producer is not None and error.txn_requires_abort():
            try:
                self._persist(lambda: producer.abort_transaction(30))
                self.aborted.add(number)
                return
            except KafkaException:
                pass
        self._producer = None

    def producer(self) -> Producer:
        if self._producer is None:
            made = Producer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "transactional.id": self._topic,
                    "transaction.timeout.ms": 30_000,
                    "reconnect.backoff.max.ms": 100,
                    **QUIET,
                }
            )
            self._persist(lambda: made.init_transactions(60))
            self._producer = made
        return self._producer


@pytest.mark.timeout(300)
def test_faults_transactions_are_whole_or_not_there_at_all(
    fresh_broker: Callable[..., Broker], topic: str
) -> None:
    broker = fresh_broker(SMALL_SEGMENTS)
    create(broker.address, topic)
    transactions = Transactions(broker.address, topic)
    with Work(transactions.run_one):
        make_trouble(broker, lambda: len(transactions.committed))
    transactions.run_one()
    transactions.producer()  # whatever a lost producer left open is ended with this
    found = read_all(broker.address, topic, "read_committed")
    times = Counter(value for values in found.values() for value in values)
    assert set(times.values()) <= {1}, "a record was stored twice"
    seen = Counter(int(value.split()[0]) for value in times)
    assert set(seen.values()) <= {RECORDS_A_TRANSACTION}, "a transaction is there in part"
    assert transactions.committed <= seen.keys(), "a committed transaction is gone"
    assert not transactions.aborted & seen.keys(), "an aborted transaction is seen"
    assert len(transactions.committed) >= ROUNDS
    for values in found.values():
        numbers = [tuple(map(int, value.split())) for value in values]
        assert numbers == sorted(numbers)
