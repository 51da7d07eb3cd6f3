"""What is in logs: codecs, transactions, compaction, retention, growing and vanishing topics."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Producer
from consumer_tools import (
    add_partitions,
    create_topic,
    delete_topic,
    filled,
    nothing_comes,
    numbers,
    offsets,
    produce,
    reader,
    run,
    take,
    values,
)

from ottla.client.admin.admin import Admin
from ottla.client.errors import OffsetOutOfRange
from ottla.client.values import TopicPartition


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_of_another_client_is_read(bootstrap: str, topic: str, codec: str) -> None:
    (partition,) = create_topic(bootstrap, topic)
    sent = [(b"%d " % number) * 20 for number in range(2000)]
    produce(bootstrap, topic, sent, key=b"key", compression_type=codec)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            found = await take(consumer, 2000)
            assert values(found) == sent
            assert offsets(found) == list(range(2000))
            assert {record.key for record in found} == {b"key"}

    run(main)


def test_headers_and_nulls_arrive_as_they_were_sent(bootstrap: str, topic: str) -> None:
    (partition,) = create_topic(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None)]
    producer.produce(topic, None, b"key", headers=headers)
    producer.produce(topic, b"", None)
    producer.flush(20)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            first, second = await take(consumer, 2)
            assert (first.key, first.value, first.headers) == (b"key", None, tuple(headers))
            assert (second.key, second.value, second.headers) == (None, b"", ())

    run(main)


def transactional(bootstrap: str, topic: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"id-{topic}", "linger.ms": 1}
    )
    producer.init_transactions(20)
    return producer


def write(producer: Producer, topic: str, sent: list[bytes]) -> None:
    for value in sent:
        producer.produce(topic, value, partition=0)
    producer.flush(20)


def test_read_committed_hides_aborted_and_open_transactions(bootstrap: str, topic: str) -> None:
    (partition,) = create_topic(bootstrap, topic)
    producer = transactional(bootstrap, topic)
    for number in range(30):
        producer.begin_transaction()
        write(producer, topic, [b"%d" % number] * 3)
        if number % 3 == 0:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
        produce(bootstrap, topic, [b"plain"])
    expected = [
        value
        for number in range(30)
        for value in ([b"%d" % number] * 3 if number % 3 else []) + [b"plain"]
    ]

    async def main() -> None:
        options = {"isolation_level": "read_committed", "max_partition_fetch_bytes": 300}
        async with reader(bootstrap, **options) as consumer:
            consumer.assign([partition])
            assert values(await take(consumer, len(expected))) == expected
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            assert len(await take(consumer, 120)) == 120
            producer.begin_transaction()
            write(producer, topic, [b"open"])
            assert values(await take(consumer, 1)) == [b"open"]
        async with reader(bootstrap, isolation_level="read_committed") as consumer:
            consumer.assign([partition])
            end = (await consumer.end_offsets([partition]))[partition]
            consumer.seek_to_end()
            assert await consumer.position(partition) == end
            assert await nothing_comes(consumer, 1_000)
            assert consumer.lag() == {partition: 0}
            await asyncio.to_thread(producer.commit_transaction, 20)
            assert values(await take(consumer, 1)) == [b"open"]

    run(main)


def test_iteration_over_markers_leaves_no_lag(bootstrap: str, topic: str) -> None:
    (partition,) = create_topic(bootstrap, topic)
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    write(producer, topic, [b"a", b"b"])
    producer.commit_transaction(20)

    async def main() -> None:
        async with reader(bootstrap, isolation_level="read_committed") as consumer:
            consumer.assign([partition])
            assert [(await anext(consumer)).value for _ in range(2)] == [b"a", b"b"]
            assert await nothing_comes(consumer)
            assert await consumer.position(partition) == 3
            assert consumer.lag() == {partition: 0}

    run(main)


@pytest.mark.ottla_only
def test_a_compacted_topic_is_read_over_its_holes(fresh_broker, topic: str) -> None:
    options = {"log.cleaner.backoff.ms": "50", "log.cleaner.min.cleanable.ratio": "0.01"}
    broker = fresh_broker(options)
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(1 << 20),
        "min.cleanable.dirty.ratio": "0.01",
    }
    (partition,) = create_topic(broker.address, topic, config=config)
    for round_ in range(40):
        produce(broker.address, topic, [b"%d" % round_ + bytes(100_000)], key=b"k%d" % (round_ % 4))

    async def main() -> None:
        async with reader(broker.address) as consumer:
            consumer.assign([partition])
            for _ in range(200):
                consumer.seek_to_beginning()
                found = []
                while not found or found[-1].offset != 39:
                    found += await take(consumer, 1)
                if len(found) < 30:
                    break
                await asyncio.sleep(0.1)
            assert len(found) < 30
            assert {record.key for record in found} == {b"k0", b"k1", b"k2", b"k3"}
            assert offsets(found) == sorted(offsets(found))
            # From inside a hole, the next record there is; meanwhile the hole may have grown.
            missing = min(set(range(40)) - set(offsets(found)))
            consumer.seek(partition, missing)
            (following,) = offsets(await take(consumer, 1))
            assert following > missing
            assert following in offsets(found)

    run(main)


async def delete_before(bootstrap: str, partition: TopicPartition, offset: int) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.delete_records({partition: offset})


def test_a_reader_that_retention_has_overtaken_goes_on_at_the_start(
    bootstrap: str, topic: str
) -> None:
    (partition,) = filled(bootstrap, topic, 100)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            consumer.pause(partition)
            consumer.seek(partition, 10)
            await delete_before(bootstrap, partition, 60)
            consumer.resume(partition)
            assert values(await take(consumer, 40)) == numbers(100, 60)
            assert await consumer.beginning_offsets([partition]) == {partition: 60}

    run(main)


def test_without_a_policy_retention_that_overtakes_is_an_error(bootstrap: str, topic: str) -> None:
    (partition,) = filled(bootstrap, topic, 100)

    async def main() -> None:
        await delete_before(bootstrap, partition, 60)
        async with reader(bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 10)
            with pytest.raises(OffsetOutOfRange, match="at offset 10"):
                await consumer.poll(5_000)
            consumer.seek_to_beginning(partition)
            assert offsets(await take(consumer, 1)) == [60]

    run(main)


def test_what_was_fetched_before_retention_overtook_is_still_handed_out(
    bootstrap: str, topic: str
) -> None:
    (partition,) = filled(bootstrap, topic, 100)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            assert offsets(await take(consumer, 5)) == list(range(5))
            await delete_before(bootstrap, partition, 100)
            assert offsets(await take(consumer, 95)) == list(range(5, 100))
            await asyncio.to_thread(produce, bootstrap, topic, [b"new"])
            assert values(await take(consumer, 1)) == [b"new"]

    run(main)


def test_partitions_that_are_added_can_be_assigned(bootstrap: str, topic: str) -> None:
    (first,) = filled(bootstrap, topic, 10)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([first])
            await take(consumer, 10)
            await asyncio.to_thread(add_partitions, bootstrap, topic, 3)
            assert await consumer.partitions_for_topic(topic) == {0, 1, 2}
            consumer.assign([TopicPartition(topic, index) for index in range(3)])
            await asyncio.to_thread(produce, bootstrap, topic, numbers(30), partitions=3)
            assert sorted(int(record.value) for record in await take(consumer, 30)) == list(
                range(30)
            )
            assert await consumer.position(first) == 20

    run(main)


def test_a_topic_that_is_deleted_gives_nothing_and_made_anew_is_read_from_its_start(
    bootstrap: str, topic: str
) -> None:
    (partition,) = filled(bootstrap, topic, 10)

    async def main() -> None:
        options = {"metadata_max_age_ms": 300, "allow_auto_create_topics": False}
        async with reader(bootstrap, **options) as consumer:
            consumer.assign([partition])
            assert len(await take(consumer, 10)) == 10
            await asyncio.to_thread(delete_topic, bootstrap, topic)
            assert await consumer.poll(1000) == {}
            while True:  # Kafka takes a while until the name is free again
                try:
                    await asyncio.to_thread(create_topic, bootstrap, topic)
                    break
                except Exception:
                    await asyncio.sleep(0.2)
            await asyncio.to_thread(produce, bootstrap, topic, numbers(20, 10))
            assert values(await take(consumer, 10)) == numbers(20, 10)

    run(main)
