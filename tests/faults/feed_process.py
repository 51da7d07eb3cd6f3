"""Writes the input of the exactly-once story, in transactions, until SIGTERM.

    python feed_process.py <bootstrap> <topic> <partitions> <transactional id> <notes> <seed>

Every key has numbers from 0 on, without gaps. After a start it reads how far its predecessor came:
what that one had open is aborted by then, what it committed can be read.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from process_notes import KEEP_BROKERS, PATIENCE_S, Notes, ended_by, patiently

KEYS = [f"key-{number}" for number in range(12)]


def partition_of(key: str, partitions: int) -> int:
    return KEYS.index(key) % partitions


def next_numbers(bootstrap: str, topic: str, partitions: int) -> dict[str, int]:
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "feed",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    reader.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    numbers = dict.fromkeys(KEYS, 0)
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(ended) < partitions:
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"stuck; ended: {ended}"))
        for message in reader.consume(1000, 0.1):
            error, partition = message.error(), message.partition()
            if error is None:
                key, value = message.key(), message.value()
                assert key is not None
                assert value is not None
                numbers[key.decode()] = int(value) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                assert partition is not None
                ended.add(partition)
    reader.close()
    return numbers


def feed(
    producer: Producer, topic: str, partitions: int, numbers: dict[str, int], chance: random.Random
) -> int:
    """One transaction; returns how many records it has, 0 if it was aborted."""
    after = dict(numbers)
    producer.begin_transaction()
    count = chance.randint(1, 20)
    for _ in range(count):
        key = chance.choice(KEYS)
        value = str(after[key]).encode()
        producer.produce(topic, value, key.encode(), partition=partition_of(key, partitions))
        after[key] += 1
    if chance.random() < 0.1:
        producer.flush(1.0)
        patiently(lambda: producer.abort_transaction(PATIENCE_S))
        return 0
    patiently(lambda: producer.commit_transaction(PATIENCE_S))
    numbers.update(after)
    return count


def main(
    bootstrap: str, topic: str, partition_count: str, name: str, notes_path: str, seed: str
) -> int:
    notes = Notes(notes_path)
    chance = random.Random(seed)
    partitions = int(partition_count)
    stopping: list[Any] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 8000,
            "linger.ms": 1,
            **KEEP_BROKERS,
        }
    )
    try:
        patiently(lambda: producer.init_transactions(PATIENCE_S))
        numbers = next_numbers(bootstrap, topic, partitions)
        notes.tell("ready", numbers)
        while not stopping:
            notes.tell("fed", feed(producer, topic, partitions, numbers, chance))
            time.sleep(chance.uniform(0.01, 0.06))
    except KafkaException as failure:
        return ended_by(notes, failure)
    notes.tell("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
