"""Offsets that the log does not hold, batches that cannot be read: what a consumer does then."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.brokers import Broker
from client_load import create_topic, run

from broker_harness import MakeBroker
from ottla import (
    Admin,
    Consumer,
    OffsetOutOfRange,
    Producer,
    TopicPartition,
    UnreadableBatch,
)
from ottla.records.crc import crc32c

FIRST_OFFSET_AT = struct.Struct(">q")
LENGTH_AT = struct.Struct(">i")
CRC_AT, CRC_FROM, RECORDS_FROM = 17, 21, 61
"""Where these are in a batch: its checksum, what that is of, its records."""


async def fill(bootstrap: str, topic: str, count: int, partitions: int = 1) -> None:
    """`count` records in each partition, in batches of one record with 2,000 bytes and more."""
    await create_topic(bootstrap, topic, partitions)
    async with Producer(bootstrap_servers=bootstrap, batch_size=0) as producer:
        for number in range(count):
            for partition in range(partitions):
                await producer.send(topic, b"%02000d" % number, partition=partition)


async def numbers(consumer: Consumer, count: int) -> list[int]:
    """The next records' values, or fewer if no more come within five seconds."""
    found: list[int] = []
    while len(found) < count:
        polled = await consumer.poll(5_000, count - len(found))
        if not polled:
            break
        found += [int(record.value) for records in polled.values() for record in records]
    return found


def member(bootstrap: str, topic: str, policy: str, **options: Any) -> Consumer:
    return Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"group-of-{topic}",
        auto_offset_reset=policy,
        **options,
    )


async def expect_policy(consumer: Consumer, policy: str, at: int, earliest: int, end: int) -> None:
    """The consumer stands at `at`, where nothing is: it goes where it was told to, or asks."""
    partition = next(iter(consumer.assignment()))
    if policy == "none":
        for _ in range(2):  # until the application has decided
            with pytest.raises(OffsetOutOfRange, match="seek to one it holds") as caught:
                await consumer.poll(5_000)
            assert caught.value.topic_partition == partition
            assert caught.value.offset == at
        begin = (await consumer.beginning_offsets([partition]))[partition]
        assert begin == earliest
        consumer.seek(partition, begin)
    if policy == "latest":
        assert await consumer.poll(700) == {}
        assert await consumer.position(partition) == end
    else:
        assert await numbers(consumer, 2) == [earliest, earliest + 1]


POLICIES = ["earliest", "latest", "none", "by_duration:PT1H"]


@pytest.mark.parametrize("policy", POLICIES)
def test_records_deleted_under_a_slow_consumer(bootstrap: str, topic: str, policy: str) -> None:
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        await fill(bootstrap, topic, 50)
        async with (
            Admin(bootstrap_servers=bootstrap) as admin,
            Consumer(
                bootstrap_servers=bootstrap,
                auto_offset_reset=policy,
                max_partition_fetch_bytes=1,  # a record at a time: the rest is still in the log
            ) as consumer,
        ):
            consumer.assign([partition])
            consumer.seek(partition, 0)
            assert await numbers(consumer, 2) == [0, 1]
            assert await admin.delete_records({partition: 40}) == {partition: 40}
            # What has been fetched is handed out all the same.
            at = await first_gap(consumer, partition, 2)
            assert at < 10
            await expect_policy(consumer, policy, at, 40, 50)

    run(main)


async def first_gap(consumer: Consumer, partition: TopicPartition, at: int) -> int:
    """Where the records that are not there any more begin. The consumer has gone past them, if it
    could, without handing out more."""
    while True:
        try:
            polled = await consumer.poll(700, max_records=1)
        except OffsetOutOfRange as error:
            return error.offset
        if not polled or polled[partition][0].offset != at:
            for record in polled.get(partition, ()):
                consumer.seek(partition, record.offset)
            return at
        at += 1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_committed_offset_that_is_gone(group_broker: Broker, topic: str, policy: str) -> None:
    bootstrap = group_broker.address
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        await fill(bootstrap, topic, 50)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.alter_group_offsets(f"group-of-{topic}", {partition: 5})
            await admin.delete_records({partition: 40})
        async with member(bootstrap, topic, policy) as consumer:
            while not consumer.assignment():
                await consumer.poll(0)
            await expect_policy(consumer, policy, 5, 40, 50)

    run(main)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_seek_behind_the_end(bootstrap: str, topic: str, policy: str) -> None:
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        await fill(bootstrap, topic, 5)
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset=policy) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 1_000)
            await expect_policy(consumer, policy, 1_000, 0, 5)

    run(main)


def segment_of(broker: Broker, partition: TopicPartition) -> Path:
    folder = broker.data / f"{partition.topic}-{partition.partition}"
    return next(folder.glob("*.log"))


def damage(segment: Path, offset: int, change: Callable[[bytearray], None]) -> None:
    """Change the batch at an offset in the file of a broker that is not running."""
    data = bytearray(segment.read_bytes())
    start = 0
    while FIRST_OFFSET_AT.unpack_from(data, start)[0] != offset:
        start += 12 + LENGTH_AT.unpack_from(data, start + 8)[0]
    end = start + 12 + LENGTH_AT.unpack_from(data, start + 8)[0]
    batch = data[start:end]
    change(batch)
    data[start:end] = batch
    segment.write_bytes(data)


def flip_a_bit(batch: bytearray) -> None:
    batch[-5] ^= 1


def put_garbage_under_a_right_checksum(batch: bytearray) -> None:
    batch[RECORDS_FROM:] = b"\xff" * (len(batch) - RECORDS_FROM)
    struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))


@pytest.mark.parametrize("change", [flip_a_bit, put_garbage_under_a_right_checksum])
@pytest.mark.parametrize("form", ["poll", "iteration"])
def test_a_damaged_batch_stops_its_partition_only_and_can_be_left_out(
    fresh_broker: MakeBroker, topic: str, change: Callable[[bytearray], None], form: str
) -> None:
    broker = fresh_broker({"group.initial.rebalance.delay.ms": "0"})
    poisoned = TopicPartition(topic, 0)
    run(lambda: fill(broker.address, topic, 10, partitions=2))
    broker.stop()
    damage(segment_of(broker, poisoned), 4, change)
    broker.start()
    found: dict[int, list[int]] = {0: [], 1: []}

    async def read_some(consumer: Consumer) -> None:
        if form == "poll":
            for place, records in (await consumer.poll(5_000, 3)).items():
                found[place.partition] += [int(record.value) for record in records]
        else:
            async for record in consumer:
                found[record.partition].append(int(record.value))
                return

    async def main() -> None:
        failures: list[UnreadableBatch] = []
        async with member(broker.address, topic, "earliest") as consumer:
            for _ in range(100):
                if len(found[0]) == 4 and len(found[1]) == 10 and len(failures) >= 2:
                    break
                try:
                    await read_some(consumer)
                except UnreadableBatch as failure:
                    failures.append(failure)
            assert found == {0: [*range(4)], 1: [*range(10)]}
            for failure in failures:
                assert (failure.topic, failure.partition, failure.offset) == (topic, 0, 4)
                assert failure.next_offset == 5
                assert re.search(re.escape(f"{topic}-0 at offset 4: "), str(failure))
                assert "seek" in str(failure)
            consumer.seek(poisoned, 5)
            while len(found[0]) < 9:
                await read_some(consumer)
            assert found[0] == [0, 1, 2, 3, 5, 6, 7, 8, 9]

    run(main)
