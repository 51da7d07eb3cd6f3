"""aiokafka with its default settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from client_samples import CODECS, MEGABYTE, PLAIN_SAMPLES, ROOMY_BYTES, Sample, noise

WAIT_S = 60


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, WAIT_S))


async def create(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])
    finally:
        await admin.close()


async def produce(bootstrap: str, topic: str, samples: Any, **settings: Any) -> list[int]:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        pending = [
            await producer.send(
                topic, key=one.key, value=one.value, headers=list(one.headers), partition=0
            )
            for one in samples
        ]
        return [getattr(await future, "offset", -1) for future in pending]


async def read(bootstrap: str, topic: str, count: int, partitions: Any = (0,)) -> list[Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, index) for index in partitions])
        return [await consumer.getone() for _ in range(count)]
    finally:
        await consumer.stop()


def as_sample(record: Any) -> Sample:
    return Sample(record.key, record.value, tuple(record.headers))


def test_aiokafka_reads_back_every_kind_of_record_in_order(bootstrap: str, topic: str) -> None:
    samples = list(PLAIN_SAMPLES)

    async def scenario() -> None:
        await create(bootstrap, topic)
        assert await produce(bootstrap, topic, samples) == list(range(len(samples)))
        records = await read(bootstrap, topic, len(samples))
        assert [as_sample(record) for record in records] == samples

    run(scenario())


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_reads_back_what_it_compressed(bootstrap: str, topic: str, codec: str) -> None:
    samples = [Sample(b"%d" % n, b"compressible " * n, (("n", b"%d" % n),)) for n in range(200)]

    async def scenario() -> None:
        await create(bootstrap, topic)
        kind = None if codec == "none" else codec
        await produce(bootstrap, topic, samples, compression_type=kind)
        assert [as_sample(record) for record in await read(bootstrap, topic, 200)] == samples

    run(scenario())


def test_aiokafka_passes_records_of_zero_bytes_and_of_a_megabyte(
    bootstrap: str, topic: str
) -> None:
    samples = [Sample(None, b""), Sample(b"big", noise(MEGABYTE, 7)), Sample(None, b"")]

    async def scenario() -> None:
        await create(bootstrap, topic, max_message_bytes=str(ROOMY_BYTES))
        await produce(bootstrap, topic, samples, max_request_size=ROOMY_BYTES)
        assert [as_sample(record) for record in await read(bootstrap, topic, 3)] == samples

    run(scenario())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_aiokafka_delivers_with_every_level_of_acks(
    bootstrap: str, topic: str, acks: int | str
) -> None:
    samples = [Sample(None, b"%d" % number) for number in range(20)]

    async def scenario() -> None:
        await create(bootstrap, topic)
        await produce(bootstrap, topic, samples, acks=acks)
        assert [as_sample(record) for record in await read(bootstrap, topic, 20)] == samples

    run(scenario())


def test_aiokafka_uses_a_hundred_partitions(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        await create(bootstrap, topic, partitions=100)
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(500):
                await producer.send(topic, b"%d" % number, partition=number % 100)
        records = await read(bootstrap, topic, 500, range(100))
        assert sorted(int(record.value) for record in records) == list(range(500))
        assert all(int(record.value) % 100 == record.partition for record in records)

    run(scenario())


def test_aiokafka_creates_a_topic_by_producing_to_it(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            sent = await producer.send_and_wait(topic, b"hello")
            assert sent.offset == 0
        assert [record.value for record in await read(bootstrap, topic, 1)] == [b"hello"]

    run(scenario())


def test_aiokafka_is_told_that_a_message_is_too_large(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        await create(bootstrap, topic, max_message_bytes="1000")
        with pytest.raises(errors.MessageSizeTooLargeError):
            await produce(bootstrap, topic, [Sample(None, noise(5000, 8))])

    run(scenario())


def test_aiokafka_finds_offsets_by_time(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        await create(bootstrap, topic)
        start_ms = time.time_ns() // 1_000_000 - 100_000
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(50):
                stamp_ms = start_ms + number * 1000
                await producer.send_and_wait(topic, b"x", partition=0, timestamp_ms=stamp_ms)
        place = TopicPartition(topic, 0)
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        try:
            found = (await consumer.offsets_for_times({place: start_ms + 10_500}))[place]
            assert (found.offset, found.timestamp) == (11, start_ms + 11_000)
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 50}
        finally:
            await consumer.stop()

    run(scenario())


def test_aiokafka_administers_topics(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, 2, 1)])
            assert topic in await admin.list_topics()
            await admin.create_partitions({topic: NewPartitions(5)})
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 5
            place = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "1234567"})
            await admin.alter_configs([place])
            assert "1234567" in str(await admin.describe_configs([place]))
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
            cluster = await admin.describe_cluster()
            assert len(cluster["brokers"]) == 1
        finally:
            await admin.close()

    run(scenario())


def test_aiokafka_deletes_records(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        await create(bootstrap, topic)
        await produce(bootstrap, topic, [Sample(None, b"%d" % number) for number in range(9)])
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(6)})
        finally:
            await admin.close()
        assert [record.value for record in await read(bootstrap, topic, 3)] == [b"6", b"7", b"8"]

    run(scenario())
