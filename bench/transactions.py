"""Transactions per second through confluent-kafka with its default settings.

Each sends ten records of 100 B to one partition, then commits; each producer has its own partition.
"""

from __future__ import annotations

import threading
import time
import uuid
from functools import partial

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench.brokers import Broker
from bench.latency import at_percent
from bench.results import Reading
from bench.sides import Bench
from bench.topics import delete, new_topic

PRODUCERS = (1, 4)
RECORDS = 10
SIZE = 100
DEADLINE_S = 60.0


def run(bench: Bench) -> None:
    seconds = bench.pick(3, 10)
    for producers in PRODUCERS:
        bench.alternate(
            f"transactions, {producers} producer(s)",
            partial(_round, producers=producers, seconds=seconds),
            rounds=bench.pick(1, 3),
        )


def _round(broker: Broker, producers: int, seconds: float) -> list[Reading]:
    topic = new_topic(broker, producers)
    try:
        crew = [_Worker(broker, topic, place) for place in range(producers)]
        cpu, started = broker.cpu_s(), time.monotonic()
        for worker in crew:
            worker.begin(started + seconds)
        for worker in crew:
            worker.end()
        taken, used = time.monotonic() - started, broker.cpu_s() - cpu
        for worker in crew:
            _await_committed(broker, topic, worker)
        times_ms = sorted(time_ms for worker in crew for time_ms in worker.times_ms)
    finally:
        delete(broker, topic)
    count = len(times_ms)
    name = f"transactions, {producers} producer" + "s" * (producers > 1)
    return [
        Reading(f"{name}: committed", count / taken, "/s", less_is_better=False),
        Reading(f"{name}: p50", at_percent(times_ms, 50), "ms"),
        Reading(f"{name}: p99", at_percent(times_ms, 99), "ms"),
        Reading(f"{name}: broker CPU of each", used / count * 1e6, "us"),
    ]


class _Worker:
    """A producer with a thread, since a commit blocks until it is answered."""

    def __init__(self, broker: Broker, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.times_ms: list[float] = []
        self._name = broker.name
        self._failure: Exception | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": broker.address,
                "transactional.id": f"bench-{uuid.uuid4().hex[:8]}",
            }
        )
        self._producer.init_transactions(DEADLINE_S)
        self._transact()  # the first one looks up leaders and coordinators
        self.times_ms.clear()

    def begin(self, until: float) -> None:
        self._until = until
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._thread.join(DEADLINE_S + max(0.0, self._until - time.monotonic()))
        if self._thread.is_alive():
            raise TimeoutError(f"{self._name} left a transaction open for {DEADLINE_S} s")
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            while time.monotonic() < self._until:
                self._transact()
        except Exception as failure:
            self._failure = failure

    def _transact(self) -> None:
        started = time.monotonic()
        producer, value = self._producer, bytes(SIZE)
        producer.begin_transaction()
        for _ in range(RECORDS):
            producer.produce(self.topic, value, partition=self.partition)
        producer.commit_transaction(DEADLINE_S)
        self.times_ms.append((time.monotonic() - started) * 1e3)


def _await_committed(broker: Broker, topic: str, worker: _Worker) -> None:
    """Wait until every record and one marker per transaction are there, and none is open."""
    expected = (len(worker.times_ms) + 1) * (RECORDS + 1)
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 4})
    place = TopicPartition(topic, worker.partition)
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = admin.list_offsets(
            {place: OffsetSpec.latest()},  # type: ignore[no-untyped-call]
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=30,
        )
        end = found[place].result(30).offset
        if end == expected:
            return
        if end > expected or time.monotonic() > deadline:
            raise RuntimeError(f"{broker.name} committed up to offset {end}, not {expected}")
        time.sleep(0.05)
