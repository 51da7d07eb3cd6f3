"""What the tests of transactions share: topics, and readers who are not our own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from ottla.client.admin.admin import Admin
from ottla.client.producer.producer import Producer
from ottla.network.versions import Versions

T = TypeVar("T")

WAIT_S = 20
RUN_TIMEOUT_S = 55


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(RUN_TIMEOUT_S):
            return await main()

    return asyncio.run(bounded())


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    for done in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        done.result(WAIT_S)


def speak_protocol(protocol: int, patch: Any) -> None:
    """With 1, as producers do whose cluster has not agreed on `transaction.version` 2."""
    if protocol == 1:
        patch.setattr(Versions, "feature", lambda self, name: 0)


def producer(bootstrap: str, name: str, **more: Any) -> Producer:
    options: dict[str, Any] = {"linger_ms": 1, "retry_backoff_ms": 50, **more}
    return Producer(bootstrap_servers=bootstrap, transactional_id=name, **options)


def until_settled(bootstrap: str, topic: str, partitions: int) -> None:
    """Until no transaction is open: the markers of one are written after its end was answered."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    places = [TopicPartition(topic, index) for index in range(partitions)]
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # has no types

    def ends(level: IsolationLevel) -> list[int]:
        asked = admin.list_offsets(dict.fromkeys(places, latest), isolation_level=level)
        return [asked[place].result(WAIT_S).offset for place in places]

    deadline = time.monotonic() + WAIT_S
    while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED):
        assert time.monotonic() < deadline, f"a transaction stays open in {topic}"
        time.sleep(0.05)


def read(
    bootstrap: str,
    topic: str,
    *,
    committed: bool = True,
    partitions: int = 1,
    settled: bool = True,
) -> list[str]:
    """All there is to read for confluent-kafka, partition by partition; unless told otherwise once
    no transaction is open."""
    if settled:
        until_settled(bootstrap, topic, partitions)
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
    values: dict[int, list[str]] = {index: [] for index in range(partitions)}
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"the reader is stuck; it has read {values}"
        message = consumer.poll(1)
        if message is None:
            continue
        error, partition, value = message.error(), message.partition(), message.value()
        assert partition is not None, error
        if error is None:
            assert value is not None
            values[partition].append(value.decode())
        else:
            assert error.code() == KafkaError._PARTITION_EOF
            ended.add(partition)
    consumer.close()
    return [value for found in values.values() for value in found]


def committed_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(WAIT_S).topic_partitions
    return {(one.topic, one.partition): one.offset for one in found}


async def state_of(bootstrap: str, transactional_id: str) -> str:
    """What the coordinator says of it: Ongoing, CompleteAbort, ..."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        return (await admin.describe_transaction(transactional_id)).state


async def until_aborted_by_time(bootstrap: str, transactional_id: str) -> None:
    """Kafka looks for overdue transactions every 10 s."""
    for _ in range(120):
        if await state_of(bootstrap, transactional_id) == "CompleteAbort":
            return
        await asyncio.sleep(0.2)
    raise AssertionError("the coordinator has not aborted it")
