"""The reader against a real broker."""

from __future__ import annotations

import asyncio

import pytest
from client_tools import on_cluster, read_all

from ottla.client.admin.admin import Admin
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.consume import ReaderSettings, TopicReader
from ottla.client.errors import NoBrokerReachable, TopicMissing
from ottla.client.network.cluster import Cluster
from ottla.client.produce import Producer, ProducerSettings
from ottla.client.values import OffsetAndTimestamp, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError


async def fill(cluster: Cluster, topic: str, count: int, *, partitions: int = 1) -> None:
    """Values 0, 1, ... with timestamps 1000, 1001, ..., round the partitions."""
    await Admin.over(cluster).create_topic(topic, partitions=partitions)
    async with Producer(cluster, topic, ProducerSettings(batch_bytes=300)) as producer:
        for number in range(count):
            await producer.send(
                b"%d" % number, partition=number % partitions, timestamp_ms=1000 + number
            )


def test_small_fetches_bring_the_same_as_large_ones(bootstrap: str, topic: str) -> None:
    async def work(cluster: Cluster) -> None:
        await fill(cluster, topic, 2000, partitions=3)
        small = ReaderSettings(partition_bytes_max=100, bytes_max=500)
        found = await read_all(cluster, topic, small)
        assert {i: [int(r.value or b"") for r in records] for i, records in found.items()} == {
            index: list(range(index, 2000, 3)) for index in range(3)
        }

    on_cluster(bootstrap, work)


def test_reading_begins_inside_a_batch_at_the_exact_offset(bootstrap: str, topic: str) -> None:
    async def work(cluster: Cluster) -> None:
        await fill(cluster, topic, 100)
        reader = TopicReader(cluster, topic, {0: 37}, ends={0: 40})
        offsets = [r.offset async for f in reader.fetches() for r in f.records()]
        assert offsets[0] == 37
        assert set(range(37, 40)) <= set(offsets)

    on_cluster(bootstrap, work)


def test_a_follower_gets_new_records_as_they_come(bootstrap: str, topic: str) -> None:
    async def work(cluster: Cluster) -> None:
        await fill(cluster, topic, 1)
        reader = TopicReader(cluster, topic, {0: 1}, settings=ReaderSettings(wait_ms_max=30_000))

        async def produce_later() -> None:
            await asyncio.sleep(0.1)
            async with Producer(cluster, topic) as producer:
                await producer.send(b"new")

        writing = asyncio.create_task(produce_later())
        stream = reader.fetches()
        async with asyncio.timeout(10):
            async for fetched in stream:
                if values := [record.value for record in fetched.records()]:
                    assert values == [b"new"]
                    break
        await stream.aclose()
        await writing

    on_cluster(bootstrap, work)


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    async def work(cluster: Cluster) -> None:
        await fill(cluster, topic, 100)
        admin = Admin.over(cluster)
        one = TopicPartition(topic, 0)
        for at, expected in (
            *((1042, 42), (0, 0), (5000, -1)),
            *((OffsetSpec.LATEST, 100), (OffsetSpec.MAX_TIMESTAMP, 99)),
        ):
            found = (await admin.list_offsets({one: at}))[one]
            assert isinstance(found, OffsetAndTimestamp)
            assert found.offset == expected, at

    on_cluster(bootstrap, work)


def test_an_offset_beyond_the_end_is_an_error_that_names_it(bootstrap: str, topic: str) -> None:
    async def work(cluster: Cluster) -> None:
        await fill(cluster, topic, 10)
        reader = TopicReader(cluster, topic, {0: 500})
        with pytest.raises(KafkaError, match="holds no offset 500") as caught:
            async for _ in reader.fetches():
                pass
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    on_cluster(bootstrap, work)


def test_a_reader_goes_on_at_the_start_when_its_records_were_deleted(
    bootstrap: str, topic: str
) -> None:
    async def work(cluster: Cluster) -> None:
        await fill(cluster, topic, 100)
        one = TopicPartition(topic, 0)
        assert await Admin.over(cluster).delete_records({one: 60}) == {one: 60}
        reader = TopicReader(cluster, topic, {0: 10}, ends={0: 100})
        values = [int(r.value or b"") async for f in reader.fetches() for r in f.records()]
        assert values == list(range(60, 100))

    on_cluster(bootstrap, work)


def test_a_topic_that_is_not_there_is_said_at_once(bootstrap: str, topic: str) -> None:
    async def work(cluster: Cluster) -> None:
        with pytest.raises(TopicMissing, match=topic):
            await cluster.topic(topic)

    on_cluster(bootstrap, work)


def test_the_second_bootstrap_address_serves_when_the_first_does_not(bootstrap: str) -> None:
    async def work(cluster: Cluster) -> int:
        return len((await Admin.over(cluster).describe_cluster()).brokers)

    assert on_cluster(f"127.0.0.1:1,{bootstrap}", work) == 1


def test_with_no_broker_at_all_every_address_is_named() -> None:
    async def work(cluster: Cluster) -> None:
        raise AssertionError("not reached")

    with pytest.raises(NoBrokerReachable, match=r"127\.0\.0\.1:1: .*127\.0\.0\.1:2: "):
        on_cluster("127.0.0.1:1,127.0.0.1:2", work)
