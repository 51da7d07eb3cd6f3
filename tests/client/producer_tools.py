"""What the tests of the producer share: topics, and a reader that is not our own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar, cast

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ottla.client.producer.producer import Producer
from ottla.client.values import RecordMetadata

T = TypeVar("T")

WAIT_S = 20
RUN_TIMEOUT_S = 50


class Stored(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(RUN_TIMEOUT_S):
            return await main()

    return asyncio.run(bounded())


def producer(bootstrap: str, **options: object) -> Producer:
    return Producer(bootstrap_servers=bootstrap, **options)  # type: ignore[arg-type]


async def all_of(sent: list) -> list[RecordMetadata]:  # type: ignore[type-arg]
    return [await one for one in sent]


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    new = NewTopic(topic, partitions, 1, config=settings)
    admin = _admin(bootstrap)
    _done(admin.create_topics([new]))


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    admin = _admin(bootstrap)
    _done(admin.create_partitions([NewPartitions(topic, total)]))


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = _admin(bootstrap)
    _done(admin.delete_topics([topic]))


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def _done(asked: dict[str, Any]) -> None:
    for one in asked.values():
        one.result(WAIT_S)


def read(bootstrap: str, topic: str, partitions: int = 1) -> dict[int, list[Stored]]:
    """All that confluent-kafka finds in a topic now, by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-of-{topic}",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: dict[int, list[Stored]] = {index: [] for index in range(partitions)}
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"the reader is stuck at {ended} of {partitions}"
        for message in consumer.consume(500, 0.2):
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is None:
                assert partition is not None
                assert offset is not None
                # Its type includes what a producer may be given.
                headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
                found[partition].append(
                    Stored(offset, message.timestamp()[1], message.key(), message.value(), headers)
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                assert partition is not None
                ended.add(partition)
    consumer.close()
    return found


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    """Of a topic of one partition."""
    return [record.value for record in read(bootstrap, topic)[0]]
