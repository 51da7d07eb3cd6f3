"""Data that a foreign client has written, and short ways to run and read with our consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ottla.client.consumer.consumer import Consumer
from ottla.client.values import AnyRecord, TopicPartition

T = TypeVar("T")

RUN_TIMEOUT_S = 50


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(RUN_TIMEOUT_S):
            return await main()

    return asyncio.run(bounded())


def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> list[TopicPartition]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, partitions, 1, config=dict(config or {}))
    for future in admin.create_topics([new]).values():
        future.result(20)
    return [TopicPartition(topic, index) for index in range(partitions)]


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics([topic]).values():
        future.result(20)


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_partitions([NewPartitions(topic, total)]).values():
        future.result(20)


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partitions: int = 1,
    key: bytes | None = None,
    timestamp: int = 0,
    **config: Any,
) -> None:
    """One after the other round the partitions, with timestamps that grow by 1 if one is given."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **_dotted(config)})
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            key,
            number % partitions,
            timestamp=timestamp + number if timestamp else 0,
        )
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(30) == 0


def _dotted(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in config.items()}


def numbers(stop: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


def filled(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[TopicPartition]:
    """A topic with the values 0, 1, ... round its partitions, at the times 1000, 1001, ..."""
    created = create_topic(bootstrap, topic, partitions)
    produce(bootstrap, topic, numbers(count), partitions=partitions, timestamp=1000)
    return created


def reader(bootstrap: str, **options: Any) -> Consumer:
    """Without a group, from the beginning unless told otherwise."""
    return Consumer(bootstrap_servers=bootstrap, **{"auto_offset_reset": "earliest", **options})


async def take(consumer: Consumer, count: int) -> list[AnyRecord]:
    """The next `count` records by polls, in the order in which they were handed out."""
    found: list[AnyRecord] = []
    while len(found) < count:
        for records in (await consumer.poll(5_000, count - len(found))).values():
            found += records
    return found


async def nothing_comes(consumer: Consumer, timeout_ms: int = 300) -> bool:
    return not await consumer.poll(timeout_ms)


def values(records: Iterable[AnyRecord]) -> list[Any]:
    return [record.value for record in records]


def offsets(records: Iterable[AnyRecord]) -> list[int]:
    return [record.offset for record in records]
