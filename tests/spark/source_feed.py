"""Writes random records to real topics, with librdkafka, and notes each in the model.

Another client than the one under test: what the source shows is compared with what a stranger
wrote and was told of its place.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from source_log import Entry, Fate, ModelPartition, ModelTopic, Row, Transaction

WAIT_S = 30.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HOUR_MS = 3_600_000
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
Headers = list[tuple[str, bytes | None]]


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(0.05)


class Feed:
    def __init__(self, address: str, chance: random.Random) -> None:
        self.address = address
        self.chance = chance
        self.admin = AdminClient({"bootstrap.servers": address})
        self._serial = 0
        self._open: dict[str, tuple[Producer, Transaction]] = {}

    def _producer(self, **settings: Any) -> Producer:
        """Batches of another codec and size each time."""
        return Producer(
            {
                "bootstrap.servers": self.address,
                "compression.type": self.chance.choice(CODECS),
                "batch.num.messages": self.chance.choice((1, 3, 20, 10_000)),
                "linger.ms": 3,
                **settings,
            }
        )

    # Topics

    def create(self, name: str, partitions: int, config: dict[str, str]) -> ModelTopic:
        self._create(name, partitions, config)
        is_compacted = config.get("cleanup.policy") == "compact"
        return ModelTopic(name, [ModelPartition() for _ in range(partitions)], is_compacted)

    def _create(self, name: str, partitions: int, config: dict[str, str]) -> None:
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        self.admin.create_topics([new])[name].result(WAIT_S)

    def add_partitions(self, topic: ModelTopic) -> None:
        count = len(topic.partitions) + self.chance.randint(1, 2)
        self.admin.create_partitions([NewPartitions(topic.name, count)])[topic.name].result(WAIT_S)
        topic.grow(count)

    def recreate(self, topic: ModelTopic, config: dict[str, str]) -> None:
        self.end_transaction(topic, commit=self.chance.random() < 0.5)
        self.admin.delete_topics([topic.name])[topic.name].result(WAIT_S)
        count = max(1, len(topic.partitions) - self.chance.randint(0, 1))
        self._create(topic.name, count, config)
        topic.recreate(count)

    # Records

    def write(self, topic: ModelTopic, count: int, partition: int | None = None) -> None:
        producer = self._producer(**self.chance.choice(({}, {"enable.idempotence": True})))
        self._send(producer, topic, count, None, partition)

    def _send(
        self,
        producer: Producer,
        topic: ModelTopic,
        count: int,
        transaction: Transaction | None,
        partition: int | None = None,
    ) -> None:
        for number in range(count):
            place = partition
            if place is None:
                place = self.chance.randrange(len(topic.partitions))
            self._send_one(producer, topic, place, transaction)
            if self.chance.random() < 0.05 or number == count - 1:
                assert producer.flush(WAIT_S) == 0, f"{topic.name} takes no records"

    def _send_one(
        self, producer: Producer, topic: ModelTopic, place: int, transaction: Transaction | None
    ) -> None:
        self._serial += 1
        key, value, headers = self._key(topic), self._value(), self._headers()
        timestamp_ms = int(time.time() * 1000) - self.chance.randrange(HOUR_MS)

        def note(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            kind, stamp = message.timestamp()
            offset = message.offset()
            assert offset is not None
            shown = tuple(headers) or None
            # librdkafka counts from 1, Kafka and Spark from 0.
            row = Row(topic.name, place, offset, key, value, stamp, kind - 1, shown)
            topic.partitions[place].add(Entry(row, transaction))

        producer.produce(
            topic.name,
            value=value,
            key=key,
            partition=place,
            timestamp=timestamp_ms,
            headers=list(headers),
            on_delivery=note,
        )
        producer.poll(0)

    def _key(self, topic: ModelTopic) -> bytes | None:
        if topic.is_compacted:
            return b"key-%d" % self.chance.randrange(6)
        return self.chance.choice((None, b"", b"key-%d" % self.chance.randrange(20), b"\x00\xff"))

    def _value(self) -> bytes | None:
        if self.chance.random() < 0.1:
            return None
        filling = self.chance.choice((b"", b"x" * 10, b"y" * 300, self.chance.randbytes(200)))
        return b"%d " % self._serial + filling

    def _headers(self) -> Headers:
        some: Headers = [("kind", b"\x00\x01"), ("kind", None), ("größe", b""), ("n", b"1")]
        return self.chance.sample(some, self.chance.choice((0, 0, 1, 2, 4)))

    # Transactions

    def transact(self, topic: ModelTopic, count: int, fate: Fate) -> None:
        """Written and ended, or left open for `end_transaction`."""
        if topic.name in self._open:
            self.end_transaction(topic, commit=self.chance.random() < 0.5)
        name = f"feed-{topic.name}-{self._serial}"
        # Left open over runs of the query, which take minutes on a machine with much else to do.
        settings = {"transactional.id": name, "transaction.timeout.ms": 15 * 60_000}
        producer = self._producer(**settings)
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        transaction = Transaction()
        self._send(producer, topic, count, transaction)
        self._open[topic.name] = producer, transaction
        if fate is not Fate.OPEN:
            self.end_transaction(topic, commit=fate is Fate.COMMITTED)

    def end_transaction(self, topic: ModelTopic, *, commit: bool) -> None:
        if topic.name not in self._open:
            return
        producer, transaction = self._open.pop(topic.name)
        if commit:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
        transaction.fate = Fate.COMMITTED if commit else Fate.ABORTED

    # What becomes unreadable

    def delete_records(self, topic: ModelTopic, partition: int, before: int) -> None:
        place = TopicPartition(topic.name, partition, before)
        # A new client: one that has seen the topic before it was made anew finds no leaders.
        admin = AdminClient({"bootstrap.servers": self.address})
        for done in admin.delete_records([place]).values():
            done.result(WAIT_S)
        topic.partitions[partition].start = max(topic.partitions[partition].start, before)

    def expire(self, topic: ModelTopic) -> None:
        """Retention takes everything that is there."""
        self._alter(topic, AlterConfigOpType.SET)
        for index, partition in enumerate(topic.partitions):
            if partition.entries:
                end = partition.known_end()
                what = f"retention deletes {topic.name}-{index} up to {end}"
                eventually(partial(self._starts_at, topic.name, index, end), what)
                partition.start = self._start(topic.name, index)
        self._alter(topic, AlterConfigOpType.DELETE)

    def _alter(self, topic: ModelTopic, operation: AlterConfigOpType) -> None:
        change = ConfigEntry("retention.ms", "1", incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=[change])
        for done in self.admin.incremental_alter_configs([resource]).values():
            done.result(WAIT_S)

    def _starts_at(self, topic: str, partition: int, offset: int) -> bool:
        return self._start(topic, partition) >= offset

    def _start(self, topic: str, partition: int) -> int:
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "looks"})
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_S)
        consumer.close()
        return low

    def compact(self, topic: ModelTopic) -> int:
        """Waits until the cleaner has dropped something; how many of the records are gone."""
        assert topic.is_compacted
        written = sum(len(partition.entries) for partition in topic.partitions)
        deadline = time.monotonic() + WAIT_S
        while (left := self._count(topic)) >= written:
            assert time.monotonic() < deadline, f"{topic.name} was not compacted in {WAIT_S} s"
            time.sleep(0.1)
            # Segments are closed by what comes after them.
            for partition in range(len(topic.partitions)):
                self.write(topic, 1, partition)
                written += 1
        return written - left

    def _count(self, topic: ModelTopic) -> int:
        settings = {"bootstrap.servers": self.address, "group.id": "counts"}
        eof = {"enable.partition.eof": True, "isolation.level": "read_uncommitted"}
        consumer = Consumer({**settings, **eof, "fetch.wait.max.ms": 10})
        places = [TopicPartition(topic.name, p, 0) for p in range(len(topic.partitions))]
        consumer.assign(places)
        found, ended = 0, 0
        while ended < len(places):
            for message in consumer.consume(1000, 0.1):
                error = message.error()
                found += error is None
                ended += error is not None and error.code() == KafkaError._PARTITION_EOF
        consumer.close()
        return found
