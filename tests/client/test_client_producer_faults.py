"""Networks and brokers that fail: records arrive once and in order, or their failure is told."""

from __future__ import annotations

import asyncio
import random

import pytest
from producer_tools import create_topic, read, run

from broker_harness import MakeBroker
from fault_proxy import FaultProxy
from ottla.client.errors import DeliveryTimedOut, NoBrokerReachable
from ottla.client.producer.producer import Producer

QUICK = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 100}


def behind(proxy: FaultProxy, fresh_broker: MakeBroker) -> str:
    """A broker whose clients come through the proxy; its own address."""
    broker = fresh_broker({"advertised.listeners": f"PLAINTEXT://{proxy.address}"})
    proxy.target = ("127.0.0.1", broker.port)
    return proxy.address


def expect_once_and_in_order(address: str, topic: str, partitions: int, count: int) -> None:
    for partition, records in read(address, topic, partitions).items():
        numbers = [int(record.value or b"") for record in records]
        assert numbers == list(range(partition, count, partitions))


@pytest.mark.parametrize("seed", range(3))
def test_cut_connections_lose_nothing_and_double_nothing(
    fresh_broker: MakeBroker, topic: str, seed: int
) -> None:
    chance = random.Random(seed)
    with FaultProxy() as proxy:
        address = behind(proxy, fresh_broker)
        create_topic(address, topic, 3)

        async def main() -> None:
            async with Producer(
                bootstrap_servers=address, batch_size=300, linger_ms=1, **QUICK
            ) as sender:
                for number in range(6000):
                    await sender.send(topic, b"%d" % number, partition=number % 3)
                    if number % 500 == 499:
                        direction = chance.choice(["to_broker", "to_client"])
                        proxy.cut_after(chance.randrange(1, 4000), direction)
                    if number % 700 == 699:
                        proxy.cut()
                    if number % 50 == 0:
                        await asyncio.sleep(0.001)
                await sender.flush()
                assert sender.metrics()["record-retry-total"] > 0

        run(main)
        proxy.heal()
        expect_once_and_in_order(address, topic, 3, 6000)


def test_a_connection_that_falls_silent_is_given_up_and_its_batches_sent_again(
    fresh_broker: MakeBroker, topic: str
) -> None:
    with FaultProxy() as proxy:
        address = behind(proxy, fresh_broker)
        create_topic(address, topic, 2)

        async def main() -> None:
            async with Producer(
                bootstrap_servers=address, request_timeout_ms=500, batch_size=300, **QUICK
            ) as sender:
                for number in range(2000):
                    await sender.send(topic, b"%d" % number, partition=number % 2)
                    if number == 1000:
                        await asyncio.sleep(0.1)
                        proxy.stall("to_client")
                        asyncio.get_running_loop().call_later(0.8, proxy.heal)

        run(main)
        expect_once_and_in_order(address, topic, 2, 2000)


def test_a_broker_that_cannot_be_reached_lets_records_fail_in_time(
    fresh_broker: MakeBroker, topic: str
) -> None:
    with FaultProxy() as proxy:
        address = behind(proxy, fresh_broker)

        async def main() -> None:
            async with Producer(
                bootstrap_servers=address,
                request_timeout_ms=300,
                delivery_timeout_ms=800,
                **QUICK,
            ) as sender:
                await sender.send_and_wait(topic, b"0")
                proxy.refuse()
                proxy.cut()
                began = asyncio.get_running_loop().time()
                sent = [await sender.send(topic, b"x") for _ in range(5)]
                with pytest.raises(DeliveryTimedOut, match=r"5 record\(s\)"):
                    await sent[0]
                assert 0.7 < asyncio.get_running_loop().time() - began < 3
                for one in sent:
                    assert isinstance(one.exception(), DeliveryTimedOut)
                proxy.heal()
                await sender.send_and_wait(topic, b"1")

        run(main)
        found = [record.value for record in read(address, topic)[0]]
        assert found == [b"0", b"1"]


@pytest.mark.parametrize("in_flight", [1, 5])
def test_records_survive_kills_of_the_broker_once_and_in_order(
    fresh_broker: MakeBroker, topic: str, in_flight: int
) -> None:
    broker = fresh_broker()
    create_topic(broker.address, topic, 2)

    async def main() -> None:
        async with Producer(
            bootstrap_servers=broker.address,
            batch_size=400,
            linger_ms=1,
            max_in_flight_requests_per_connection=in_flight,
            **QUICK,
        ) as sender:
            for number in range(3000):
                await sender.send(topic, b"%d" % number, partition=number % 2)
                if number in (1000, 2000):
                    await asyncio.sleep(0.02)
                    broker.kill()  # in this thread: the process is bound to its parent's
                    broker.start()

    run(main)
    expect_once_and_in_order(broker.address, topic, 2, 3000)


def test_one_request_at_a_time_keeps_the_order_without_idempotence(
    fresh_broker: MakeBroker, topic: str
) -> None:
    with FaultProxy() as proxy:
        address = behind(proxy, fresh_broker)
        create_topic(address, topic, 1)

        async def main() -> None:
            async with Producer(
                bootstrap_servers=address,
                acks=1,
                max_in_flight_requests_per_connection=1,
                batch_size=300,
                **QUICK,
            ) as sender:
                for number in range(2000):
                    await sender.send(topic, b"%d" % number)
                    if number % 400 == 399:
                        await asyncio.sleep(0.01)
                        proxy.cut()

        run(main)
        numbers = [int(record.value or b"") for record in read(address, topic)[0]]
        assert list(dict.fromkeys(numbers)) == list(range(2000))
        # A batch may be there twice, but nothing comes before what was given earlier.
        assert len(numbers) < 2000 + 5 * 30


def test_answers_that_come_in_pieces_are_understood(fresh_broker: MakeBroker, topic: str) -> None:
    with FaultProxy() as proxy:
        address = behind(proxy, fresh_broker)
        create_topic(address, topic, 1)
        proxy.dribble(7, 0.0)

        async def main() -> None:
            async with Producer(bootstrap_servers=address, batch_size=500) as sender:
                for number in range(300):
                    await sender.send(topic, b"%d" % number)

        run(main)
        proxy.heal()
        expect_once_and_in_order(address, topic, 1, 300)


def test_a_start_without_any_broker_is_an_error_in_time() -> None:
    async def main() -> None:
        with FaultProxy() as proxy:
            address = proxy.address
        sender = Producer(bootstrap_servers=address, default_api_timeout_ms=300)
        with pytest.raises(NoBrokerReachable):
            await sender.start()
        await sender.close()

    run(main)
