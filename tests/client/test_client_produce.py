"""The producer against a real broker."""

from __future__ import annotations

import asyncio

import pytest
from bench.brokers import Broker
from client_tools import on_cluster, read_all

from ottla.client.admin.admin import Admin
from ottla.client.errors import DeliveryFailed, TopicMissing
from ottla.client.network.cluster import Cluster
from ottla.client.partitioner import partition_for_key
from ottla.client.produce import Delivered, Producer, ProducerSettings
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.codec import Codec


def test_everything_about_a_record_arrives(bootstrap: str, topic: str) -> None:
    headers = (("a", b"1"), ("a", None), ("ü", b"\xff"))

    async def work(cluster: Cluster) -> None:
        await Admin.over(cluster).create_topic(topic, partitions=3)
        async with Producer(cluster, topic) as producer:
            await producer.send(b"v", b"k", headers=headers, partition=2, timestamp_ms=1234)
            await producer.send(None, b"k", partition=2, timestamp_ms=1235)
            await producer.send(b"", None, partition=2, timestamp_ms=1236)
        found = (await read_all(cluster, topic))[2]
        assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == [
            (0, 1234, b"k", b"v", headers),
            (1, 1235, b"k", None, ()),
            (2, 1236, None, b"", ()),
        ]

    on_cluster(bootstrap, work)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_arrive_once_and_in_order_with_each_codec(
    bootstrap: str, topic: str, codec: Codec
) -> None:
    async def work(cluster: Cluster) -> None:
        await Admin.over(cluster).create_topic(topic, partitions=3)
        settings = ProducerSettings(codec=codec, batch_bytes=2000, linger_ms=0)
        async with Producer(cluster, topic, settings) as producer:
            for number in range(5000):
                await producer.send(b"%d" % number, b"key-%d" % (number % 50))
        found = await read_all(cluster, topic)
        for partition, records in found.items():
            numbers = [int(record.value or b"") for record in records]
            assert numbers == sorted(numbers)
            assert {partition_for_key(r.key or b"", 3) for r in records} <= {partition}
        assert sum(len(records) for records in found.values()) == 5000

    on_cluster(bootstrap, work)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_each_level_of_acks_delivers(bootstrap: str, topic: str, acks: int) -> None:
    async def work(cluster: Cluster) -> None:
        await Admin.over(cluster).create_topic(topic, partitions=2)
        async with Producer(cluster, topic) as producer:
            for partition in range(2):  # nobody would tell that it is not led yet
                await producer.send(b"first", partition=partition)
        settings = ProducerSettings(acks=acks, batch_bytes=500)
        async with Producer(cluster, topic, settings) as producer:
            for number in range(998):
                await producer.send(b"%d" % number)
        assert producer.delivered_count == 998
        while sum(len(r) for r in (await read_all(cluster, topic)).values()) < 1000:
            assert acks == 0, "acknowledged and not there"
            await asyncio.sleep(0.01)

    on_cluster(bootstrap, work)


def test_what_arrived_is_told_with_its_offsets(bootstrap: str, topic: str) -> None:
    told: list[Delivered] = []

    async def work(cluster: Cluster) -> None:
        await Admin.over(cluster).create_topic(topic, partitions=1)
        settings = ProducerSettings(batch_bytes=200)
        async with Producer(cluster, topic, settings, on_delivered=told.append) as producer:
            for number in range(100):
                await producer.send(b"%d" % number)

    on_cluster(bootstrap, work)
    following = 0
    for delivered in told:
        assert delivered.base_offset == following
        following += delivered.count
    assert following == 100


def test_a_record_too_large_for_the_topic_ends_the_producer_with_the_reason(
    bootstrap: str, topic: str
) -> None:
    async def work(cluster: Cluster) -> None:
        await Admin.over(cluster).create_topic(
            topic, partitions=1, configs={"max.message.bytes": "1000"}
        )
        with pytest.raises(DeliveryFailed, match="MESSAGE_TOO_LARGE") as caught:
            async with Producer(cluster, topic) as producer:
                await producer.send(b"x" * 5000)
        assert isinstance(caught.value.cause, KafkaError)
        assert caught.value.cause.code == ErrorCode.MESSAGE_TOO_LARGE

    on_cluster(bootstrap, work)


def test_a_partition_that_is_not_there_is_refused(bootstrap: str, topic: str) -> None:
    async def work(cluster: Cluster) -> None:
        await Admin.over(cluster).create_topic(topic, partitions=1)
        with pytest.raises(TopicMissing, match="no partition 1"):
            async with Producer(cluster, topic) as producer:
                await producer.send(b"x", partition=1)

    on_cluster(bootstrap, work)


def test_a_missing_topic_is_made_where_the_broker_makes_topics(bootstrap: str, topic: str) -> None:
    async def work(cluster: Cluster) -> None:
        async with Producer(cluster, topic) as producer:
            await producer.send(b"x")
        assert [len(r) for r in (await read_all(cluster, topic)).values()] == [1]

    on_cluster(bootstrap, work)


def test_records_survive_a_restart_of_the_broker_in_order(fresh_broker, topic: str) -> None:
    """Batches under way are resent in order; a broker that forgot the producer may keep both."""
    broker: Broker = fresh_broker()

    async def work(cluster: Cluster) -> None:
        await Admin.over(cluster).create_topic(topic, partitions=2)
        settings = ProducerSettings(batch_bytes=400, linger_ms=0)
        async with Producer(cluster, topic, settings) as producer:
            for number in range(3000):
                await producer.send(b"%d" % number, partition=number % 2)
                if number == 1500:
                    broker.restart()  # in this thread: the process is bound to its parent's
        for partition, records in (await read_all(cluster, topic)).items():
            numbers = [int(record.value or b"") for record in records]
            assert list(dict.fromkeys(numbers)) == list(range(partition, 3000, 2))

    on_cluster(broker.address, work)


def test_the_buffer_is_bounded(bootstrap: str, topic: str) -> None:
    async def work(cluster: Cluster) -> int:
        await Admin.over(cluster).create_topic(topic, partitions=1)
        settings = ProducerSettings(batch_bytes=1000, buffer_bytes_max=5000)
        most = 0
        async with Producer(cluster, topic, settings) as producer:
            for _ in range(500):
                await producer.send(b"x" * 100)
                most = max(most, producer._buffered_bytes)
        return most

    assert on_cluster(bootstrap, work) <= 5000 + 200
