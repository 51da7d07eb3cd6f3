"""A consumer that subscribes without a group reads everything, alone."""

import asyncio
from collections.abc import Iterable

import pytest

from ottla import Admin, Consumer, IllegalState, Producer, RebalanceListener, TopicPartition


class Heard(RebalanceListener):
    def __init__(self) -> None:
        self.assigned: set[TopicPartition] = set()
        self.revoked: set[TopicPartition] = set()

    def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self.assigned |= set(partitions)

    def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self.revoked |= set(partitions)


async def filled(bootstrap: str, topic: str, partitions: int) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, partitions=partitions)
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for index in range(partitions):
            await producer.send(topic, b"%d" % index, partition=index)


async def values(consumer: Consumer, count: int) -> set[bytes]:
    found: set[bytes] = set()
    while len(found) < count:
        for records in (await consumer.poll(timeout_ms=5_000)).values():
            found |= {record.value for record in records}
    return found


async def reads_all(bootstrap: str, topic: str) -> None:
    await filled(bootstrap, topic, 3)
    heard = Heard()
    options = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
    async with Consumer(topic, listener=heard, metadata_max_age_ms=300, **options) as consumer:
        assert await values(consumer, 3) == {b"0", b"1", b"2"}
        assert (
            consumer.assignment() == heard.assigned == {TopicPartition(topic, i) for i in (0, 1, 2)}
        )
        with pytest.raises(IllegalState, match="set group_id"):
            await consumer.commit()
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_partitions(topic, 4)
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(topic, b"new", partition=3)
        assert await values(consumer, 1) == {b"new"}
        await consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
        assert len(heard.revoked) == 4


def test_all_partitions_are_read_new_ones_too(bootstrap: str, topic: str) -> None:
    asyncio.run(asyncio.wait_for(reads_all(bootstrap, topic), 60))


async def reads_by_pattern(bootstrap: str, topic: str) -> None:
    await filled(bootstrap, f"{topic}.a", 1)
    await filled(bootstrap, f"{topic}.b", 2)
    options = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
    async with Consumer(group_protocol="consumer", **options) as consumer:
        consumer.subscribe(pattern=topic.replace(".", r"\.") + r"\.[ab]")
        assert await values(consumer, 2) == {b"0", b"1"}
        assert len(consumer.assignment()) == 3


def test_a_pattern_works_without_a_group(bootstrap: str, topic: str) -> None:
    asyncio.run(asyncio.wait_for(reads_by_pattern(bootstrap, topic), 60))
