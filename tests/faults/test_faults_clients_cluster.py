"""Leaders and coordinators that move, brokers that throttle: two nodes of Apache Kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_load import (
    create_topic,
    elsewhere,
    expect_nothing_lost,
    load,
    run,
)
from kafka_pair import FIRST, OFFSETS, SECOND, TRANSACTIONS, Pair, in_sync, kafka_pair, lead

from ottla import Admin, Consumer, Producer, QuotaEntity, TopicPartition

pytestmark = pytest.mark.ottla_only  # it starts Kafka by itself


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, kafka_libs: Path) -> Iterator[Pair]:
    with kafka_pair(tmp_path_factory.mktemp("pair"), kafka_libs) as pair:
        yield pair


async def transact(
    producer: Producer, topic: str, committed: list[int], stop: asyncio.Event
) -> None:
    """One transaction after another, each of two records."""
    number = 0
    while not stop.is_set():
        async with producer.transaction():
            for _ in range(2):
                await producer.send(topic, b"%d" % number)
                committed.append(number)
                number += 1
        await asyncio.sleep(0.01)


def test_leaders_move_under_load(pair: Pair, topic: str) -> None:
    partitions = [TopicPartition(topic, index) for index in range(3)]

    async def main() -> None:
        await create_topic(pair.address, topic, 3, replication_factor=2)
        async with Admin(bootstrap_servers=pair.address) as admin:
            async with load(pair.address, topic) as work:
                for node in (FIRST, SECOND, FIRST):
                    await lead(admin, node, *partitions)
                    await work.goes_on()
            expect_nothing_lost(work, pair.address)

    run(main)


@pytest.mark.parametrize("way", ["elected", "stopped", "killed"])
def test_coordinators_move_under_load(pair: Pair, topic: str, way: str) -> None:
    """The node that leads everything, the group and the transactions included, goes away."""
    moving = [OFFSETS, TRANSACTIONS]

    async def move_away(admin: Admin) -> None:
        if way == "elected":
            await lead(admin, FIRST, *moving)
        elif way == "stopped":
            await elsewhere(pair.second.stop)
        else:
            await elsewhere(pair.second.kill)

    async def main() -> None:
        exact = f"exact-{topic}"
        await create_topic(pair.address, topic, 2, replication_factor=2)
        await create_topic(pair.address, exact, 1, replication_factor=2)
        stop, committed = asyncio.Event(), list[int]()
        async with (
            Admin(bootstrap_servers=pair.address) as admin,
            Producer(bootstrap_servers=pair.address, transactional_id=topic) as producer,
        ):
            await producer.init_transactions()
            async with load(pair.address, topic, 2) as work:
                here = [TopicPartition(topic, index) for index in range(2)]
                await lead(admin, SECOND, *moving, *here, TopicPartition(exact, 0))
                writing = asyncio.create_task(transact(producer, exact, committed, stop))
                await work.goes_on()
                await move_away(admin)
                await work.goes_on()
                if not pair.second.running:
                    await elsewhere(pair.second.start)
                await in_sync(admin, *moving, *here)
                await work.goes_on()
                stop.set()
                await writing
            expect_nothing_lost(work, pair.address)
            assert await committed_numbers(pair.address, exact, len(committed)) == committed
            lag = await admin.group_lag(f"group-of-{topic}")
            assert [one.lag for one in lag] == [0, 0], "what was read was committed at the end"

    run(main)


async def committed_numbers(address: str, topic: str, count: int) -> list[int]:
    found: list[int] = []
    async with Consumer(
        bootstrap_servers=address,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < count:
            polled = await consumer.poll(5_000)
            assert polled, f"{len(found)} of {count}"
            found += [int(record.value) for records in polled.values() for record in records]
    return found


def test_quotas_slow_clients_down_and_lose_nothing(pair: Pair, topic: str) -> None:
    who = QuotaEntity(client_id="slow")
    rates = {"producer_byte_rate": 10_000.0, "consumer_byte_rate": 10_000.0}
    count, size = 32, 1_000

    async def main() -> None:
        await create_topic(pair.address, topic, 1, replication_factor=2)
        async with Admin(bootstrap_servers=pair.address) as admin:
            assert await admin.alter_client_quotas({who: rates}) == {who: None}
        began = time.monotonic()
        async with Producer(bootstrap_servers=pair.address, client_id="slow") as producer:
            for _ in range(4):
                for _ in range(count):
                    await producer.send(topic, bytes(size))
                await producer.flush()
            assert producer.metrics()["throttle-time-max"] > 0
            assert producer.metrics()["record-retry-total"] == 0
        assert time.monotonic() - began > 1
        async with Consumer(
            bootstrap_servers=pair.address, client_id="slow", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            found = 0
            while found < 4 * count:
                found += sum(map(len, (await consumer.poll(20_000)).values()))
            assert found == 4 * count
            assert consumer.metrics()["throttle-time-max"] > 0

    run(main)
