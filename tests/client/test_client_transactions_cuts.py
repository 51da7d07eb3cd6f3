"""Connections are cut at any byte, answers are lost: each transaction is whole or absent."""

from __future__ import annotations

import asyncio
import random

import pytest
from transaction_tools import committed_offsets, create_topic, producer, read, run, speak_protocol

from broker_harness import MakeBroker
from fault_proxy import FaultProxy
from ottla.client.producer.producer import Producer
from ottla.client.values import GroupMetadata, TopicPartition

PARTITIONS = 3
TRANSACTIONS = 60
RECORDS = 12


async def cut_now_and_then(proxy: FaultProxy, chance: random.Random) -> None:
    """After a random number of bytes: within requests, within answers, and between."""
    while True:
        direction = chance.choice(("to_broker", "to_client"))
        proxy.cut_after(chance.randrange(1, 600), direction)
        await asyncio.sleep(chance.uniform(0.02, 0.12))


async def transact(writer: Producer, topic: str, number: int, chance: random.Random) -> list[str]:
    """One transaction; what of it is to be seen."""
    values = [f"{number:02}-{n:02}" for n in range(RECORDS)]
    await writer.begin_transaction()
    for n, value in enumerate(values):
        await writer.send(topic, value.encode(), partition=n % PARTITIONS)
        if chance.random() < 0.1:
            await asyncio.sleep(0.01)
    group = GroupMetadata(f"group-of-{topic}")
    await writer.send_offsets_to_transaction({TopicPartition(topic, 0): number + 1}, group)
    end = chance.random()
    if end < 0.3:
        await writer.abort_transaction()
        return []
    if end < 0.5:
        await writer.prepare_transaction()
    await writer.commit_transaction()
    return values


@pytest.mark.parametrize("protocol", [1, 2])
def test_each_transaction_is_whole_or_absent_whatever_is_cut(
    fresh_broker: MakeBroker, topic: str, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    speak_protocol(protocol, monkeypatch)
    chance = random.Random(protocol)
    expected: list[str] = []
    last_committed = 0

    async def main(proxy: FaultProxy) -> None:
        nonlocal last_committed
        async with producer(
            proxy.address, topic, request_timeout_ms=3_000, batch_size=200, retry_backoff_ms=20
        ) as writer:
            await writer.init_transactions()
            cutting = asyncio.create_task(cut_now_and_then(proxy, chance))
            for number in range(TRANSACTIONS):
                seen = await transact(writer, topic, number, chance)
                expected.extend(seen)
                last_committed = number + 1 if seen else last_committed
            cutting.cancel()
            await asyncio.wait([cutting])
            proxy.heal()

    with FaultProxy() as proxy:
        broker = fresh_broker({"advertised.listeners": f"PLAINTEXT://{proxy.address}"})
        proxy.target = ("127.0.0.1", broker.port)
        create_topic(proxy.address, topic, PARTITIONS)
        run(lambda: main(proxy))
        found = read(proxy.address, topic, partitions=PARTITIONS)
        offsets = committed_offsets(proxy.address, f"group-of-{topic}")
    order = [value for n in range(PARTITIONS) for value in expected if int(value[3:]) % 3 == n]
    assert found == order
    assert offsets == {(topic, 0): last_committed}
