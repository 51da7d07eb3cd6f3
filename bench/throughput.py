"""Megabytes and records per second through confluent-kafka with its default settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench.brokers import Broker
from bench.results import Reading
from bench.sides import Bench
from bench.topics import delete, new_topic

SIZES = (100, 1000)
PARTITIONS = (1, 12)
CHUNK = 1000
DEADLINE_S = 120.0

Settings = Mapping[str, str]


def run(bench: Bench) -> None:
    for size in SIZES:
        megabytes = bench.pick(40, 100) if size < 1000 else bench.pick(100, 400)
        for partitions in PARTITIONS:
            first = (size, partitions) == (SIZES[0], PARTITIONS[0])
            bench.alternate(
                f"throughput, {size} B, {partitions} partition(s)",
                partial(_round, size=size, partitions=partitions, megabytes=megabytes),
                rounds=bench.pick(1, 3),
                warm_up=int(first),
            )


def _round(broker: Broker, size: int, partitions: int, megabytes: int) -> list[Reading]:
    return measure(broker, size, partitions, megabytes, {"bootstrap.servers": broker.address})


def measure(
    broker: Broker, size: int, partitions: int, megabytes: int, client: Settings, note: str = ""
) -> list[Reading]:
    """Write and read that much with clients of these settings; `note` goes into the labels."""
    topic = new_topic(broker, partitions)
    count = megabytes * 1_000_000 // size // CHUNK * CHUNK
    try:
        readings = []
        total = count * size
        for verb in ("produce", "consume"):
            cpu = broker.cpu_s()
            if verb == "produce":
                taken = _produce(broker, client, topic, size, partitions, count)
            else:
                taken = _consume(broker, client, topic, partitions, count)
            used = broker.cpu_s() - cpu
            name = f"{verb}{note} {size} B, {partitions} part."
            readings += [
                Reading(f"{name}: throughput", total / taken / 1e6, "MB/s", less_is_better=False),
                Reading(f"{name}: records", count / taken, "/s", less_is_better=False),
                Reading(f"{name}: broker CPU", used / (total / 1e9), "s/GB"),
            ]
        return readings
    finally:
        delete(broker, topic)


def _produce(
    broker: Broker, client: Settings, topic: str, size: int, partitions: int, count: int
) -> float:
    """Return the seconds from the first record sent to the last one acknowledged."""
    producer = Producer(dict(client))
    value = bytes(range(256)) * (size // 256 + 1)
    messages = [
        [{"value": value[:size], "partition": place}] * CHUNK for place in range(partitions)
    ]
    started = time.monotonic()
    deadline = started + DEADLINE_S
    for number in range(count // CHUNK):
        rest = messages[number % partitions]
        while len(producer) > 90_000:  # below the limit of its queue
            producer.poll(0.005)
        if producer.produce_batch(topic, rest) != CHUNK or time.monotonic() > deadline:
            raise RuntimeError(f"{broker.name} did not take {count} records in {DEADLINE_S} s")
    if producer.flush(DEADLINE_S):
        raise RuntimeError(f"{broker.name} did not acknowledge everything in {DEADLINE_S} s")
    return time.monotonic() - started


def _consume(broker: Broker, client: Settings, topic: str, partitions: int, count: int) -> float:
    """Return the seconds from the first record to the last: starting takes half a second."""
    consumer = Consumer(
        {
            **client,
            "group.id": "bench",
            "enable.auto.commit": False,
            # With the default it sometimes pauses for a second at 100,000 queued records.
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, place, OFFSET_BEGINNING) for place in range(partitions)])
    if not consumer.consume(1, 30):
        raise RuntimeError(f"{broker.name} answered no fetch within 30 s")
    started = time.monotonic()
    left = count - 1
    while left:
        messages = consumer.consume(min(left, 10_000), 10)
        if not messages:
            raise RuntimeError(f"{broker.name} fell silent {left} records before the end")
        left -= len(messages)
    taken = time.monotonic() - started
    consumer.close()
    return taken
