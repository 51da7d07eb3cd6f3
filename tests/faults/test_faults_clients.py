"""Our clients, with default settings and under steady load, while brokers and connections die."""

from __future__ import annotations

import asyncio
import random

import pytest
from bench.brokers import free_port
from client_load import (
    QUICK_GROUPS,
    create_topic,
    delete_topic,
    elsewhere,
    expect_nothing_lost,
    load,
    run,
    stored_numbers,
)

from broker_harness import MakeBroker
from fault_proxy import DIRECTIONS, FaultProxy

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
        address = f"PLAINTEXT://{proxy.address}"
        broker = fresh_broker({"advertised.listeners": address, **QUICK_GROUPS}, start=False)
        broker.port = free_port()
        proxy.target = ("127.0.0.1", broker.port)
        broker.start()

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
