"""How the producer fills batches, and what it does when its buffer is full, on a real broker."""

from __future__ import annotations

import asyncio

import pytest
from producer_tools import (
    all_of,
    create_topic,
    producer,
    read,
    run,
    values,
)

from broker_harness import MakeBroker
from ottla.client.errors import (
    BufferExhausted,
    DeliveryFailed,
    TopicMissing,
)
from ottla.protocol.errors import KafkaError


def test_a_batch_that_the_topic_finds_too_large_is_split(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1, max_message_bytes="2000")

    async def main() -> None:
        async with producer(bootstrap, batch_size=100_000, linger_ms=5) as sender:
            sent = [await sender.send(topic, b"%0100d" % number) for number in range(300)]
            early = asyncio.create_task(all_of(sent[:3]))
            await sender.flush()
            assert [one.offset for one in await all_of(sent)] == list(range(300))
            assert [one.offset for one in await early] == [0, 1, 2]
            assert sender.metrics()["batch-split-total"] >= 7
            assert sender.metrics()["buffer-available-bytes"] == 32 << 20

    run(main)
    assert values(bootstrap, topic) == [b"%0100d" % number for number in range(300)]


def test_one_record_too_large_for_the_topic_fails_and_the_others_arrive(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 1, max_message_bytes="2000")

    async def main() -> None:
        async with producer(bootstrap, batch_size=100_000) as sender:
            sent = [
                await sender.send(topic, b"x" * (5000 if number == 20 else 100))
                for number in range(100)
            ]
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await sent[20]
            await all_of(sent[:20] + sent[21:])

    run(main)
    assert [len(value or b"") for value in values(bootstrap, topic)] == [100] * 99


def test_batches_wait_for_linger_ms_unless_they_are_full(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def main() -> None:
        async with producer(bootstrap, linger_ms=400, batch_size=5000) as sender:
            await sender.send_and_wait(topic, b"first")
            clock = asyncio.get_running_loop().time
            began = clock()
            lingers = await sender.send(topic, b"x")
            await lingers
            assert clock() - began >= 0.38
            full = [await sender.send(topic, b"x" * 1000) for _ in range(6)]
            began = clock()
            await full[0]
            assert clock() - began < 0.3
            assert not full[5].done()

    run(main)


def test_compressed_batches_hold_more_records_once_it_is_known_how_well_they_compress(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic)

    async def main() -> float:
        async with producer(bootstrap, compression_type="lz4", linger_ms=1000) as sender:
            for _ in range(20):
                for _ in range(5_000):
                    await sender.send(topic, b"always the same text " * 10)
                await sender.flush()
            return sender.metrics()["records-per-request-max"]

    assert run(main) > 2 * 16_384 / 210


def test_records_without_a_key_are_spread_over_the_partitions_in_whole_batches(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 4)

    async def main() -> None:
        async with producer(bootstrap, batch_size=2000, linger_ms=100) as sender:
            for _ in range(10_000):
                await sender.send(topic, b"x" * 100)
            await sender.flush()
            assert sender.metrics()["batch-size-avg"] > 1700

    run(main)
    counts = [len(records) for records in read(bootstrap, topic, 4).values()]
    assert sum(counts) == 10_000
    assert min(counts) > 1200


# Memory


def test_the_buffer_is_bounded(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def main() -> None:
        async with producer(bootstrap, buffer_memory=5000, batch_size=1000) as sender:
            memory = sender._running().accumulator.memory
            for _ in range(500):
                await sender.send(topic, b"x" * 100)
                assert memory.free >= 0
            await sender.flush()
            assert memory.free == 5000

    run(main)
    assert len(values(bootstrap, topic)) == 500


def test_senders_that_find_no_room_wait_in_line(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def main() -> None:
        async with producer(bootstrap, buffer_memory=2000, linger_ms=10_000) as sender:
            await sender.partitions_for(topic)

            async def give(number: int) -> None:
                await sender.send(topic, b"%0500d" % number)

            await asyncio.gather(*(give(number) for number in range(50)))

    run(main)
    found = [int(value or b"") for value in values(bootstrap, topic)]
    assert found == list(range(50))


@pytest.mark.parametrize("max_block_ms", [0, 200])
def test_a_full_buffer_raises_what_to_do_after_max_block_ms(
    fresh_broker: MakeBroker, topic: str, max_block_ms: int
) -> None:
    broker = fresh_broker()

    async def main() -> None:
        sender = producer(broker.address, buffer_memory=2000, max_block_ms=max_block_ms)
        await sender.start()
        for _ in range(100):  # without patience the first metadata is not waited for either
            try:
                await sender.send_and_wait(topic, b"x")
                break
            except TopicMissing:
                await asyncio.sleep(0.05)
        broker.kill()
        await sender.send(topic, b"x" * 1500)
        with pytest.raises(BufferExhausted, match="raise buffer_memory"):
            await sender.send(topic, b"x" * 1500)
        assert sender.metrics()["buffer-exhausted-total"] == 1
        with pytest.raises(DeliveryFailed):
            await sender.close(timeout_ms=0)

    run(main)
