"""Our clients, with default settings and under steady load, while brokers and connections die."""

from __future__ import annotations

import asyncio
import random

import pytest
from client_load import (
    QUICK_GROUPS,
    create_topic,
    delete_topic,
    elsewhere,
    expect_nothing_lost,
    load,
    run,
    start_behind,
    stored_numbers,
)

from broker_harness import MakeBroker
from fault_proxy import DIRECTIONS, FaultProxy
from ottla import Consumer, DeliveryTimedOut, Producer, TopicMissing, TopicPartition

PROTOCOLS = ["classic", "consumer"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_broker_that_is_killed_again_and_again_loses_and_doubles_nothing(
    fresh_broker: MakeBroker, topic: str, protocol: str
) -> None:
    broker = fresh_broker(QUICK_GROUPS)

    def bounce() -> None:
        broker.kill()
        broker.start()

    async def main() -> None:
        await create_topic(broker.address, topic, 3)
        async with load(broker.address, topic, group_protocol=protocol) as work:
            for _ in range(3):
                await elsewhere(bounce)
                await work.goes_on()
        expect_nothing_lost(work, broker.address)

    run(main)


@pytest.mark.parametrize(("protocol", "seed"), [("classic", 1), ("classic", 2), ("consumer", 3)])
def test_connections_cut_at_any_byte_lose_and_double_nothing(
    fresh_broker: MakeBroker, topic: str, protocol: str, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    with FaultProxy() as proxy:
        start_behind(proxy, fresh_broker)

        async def main() -> None:
            await create_topic(proxy.address, topic, 3)
            async with load(proxy.address, topic, group_protocol=protocol) as work:
                cut_before = proxy.accepted_count
                for _ in range(25):
                    proxy.cut_after(chance.randrange(1, 3000), chance.choice(DIRECTIONS))
                    await asyncio.sleep(chance.random() * 0.3)
                proxy.heal()
                assert proxy.accepted_count > cut_before + 5
            expect_nothing_lost(work, proxy.address)

        run(main)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_topic_deleted_and_made_anew_is_written_and_read_on(
    fresh_broker: MakeBroker, topic: str, protocol: str
) -> None:
    broker = fresh_broker({"auto.create.topics.enable": "false", **QUICK_GROUPS})

    async def main() -> None:
        await create_topic(broker.address, topic, 2)
        async with load(broker.address, topic, 2, group_protocol=protocol) as work:
            await delete_topic(broker.address, topic)
            await asyncio.sleep(1)
            before = work.sent
            work.forget()
            await create_topic(broker.address, topic, 2)
        assert work.failures == []
        stored = stored_numbers(broker.address, topic, 2)
        for partition, found in enumerate(stored):
            numbers = list(found.values())
            assert numbers == list(range(numbers[0], work.sent, 2)), "a gap in the new topic"
            assert numbers[0] <= before + 2, "what was sent while there was none is kept"
            assert work.acknowledged[partition] == found
            assert list(work.seen[partition].items()) == list(found.items())

    run(main)


def test_a_topic_deleted_for_good_fails_what_was_for_it_and_nothing_else(
    fresh_broker: MakeBroker, topic: str
) -> None:
    broker = fresh_broker({"auto.create.topics.enable": "false", **QUICK_GROUPS})
    limits = {"delivery_timeout_ms": 2_000, "max_block_ms": 2_000, "request_timeout_ms": 1_000}
    other = f"other-{topic}"

    async def main() -> None:
        for name in (topic, other):
            await create_topic(broker.address, name)
        async with (
            Producer(bootstrap_servers=broker.address, **limits) as producer,
            Consumer(bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([TopicPartition(topic, 0), TopicPartition(other, 0)])
            for name in (topic, other):
                await producer.send_and_wait(name, b"before")
            await delete_topic(broker.address, topic)
            waiting = await producer.send(topic, b"too late")
            await producer.send_and_wait(other, b"after")
            with pytest.raises(DeliveryTimedOut, match=f"{topic}-0 .*delivery_timeout_ms") as late:
                await waiting
            assert "UNKNOWN_TOPIC" in str(late.value) or "no such topic" in str(late.value)
            with pytest.raises(TopicMissing, match=topic):
                await producer.send(topic, b"refused")
            found: list[bytes] = []
            while found.count(b"after") < 1:
                for records in (await consumer.poll(5_000)).values():
                    found += [record.value for record in records if record.topic == other]
            assert found == [b"before", b"after"]

    run(main)


def test_a_topic_that_may_be_created_comes_back_by_itself(
    fresh_broker: MakeBroker, topic: str
) -> None:
    broker = fresh_broker(QUICK_GROUPS)

    async def main() -> None:
        async with Producer(bootstrap_servers=broker.address) as producer:
            await producer.send_and_wait(topic, b"before")
            await delete_topic(broker.address, topic)
            assert (await producer.send_and_wait(topic, b"after")).offset == 0

    run(main)
