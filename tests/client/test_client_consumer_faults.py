"""Reading while the network and the broker fail: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import time

import pytest
from bench.brokers import free_port
from consumer_tools import create_topic, filled, numbers, produce, reader, run, take, values

from broker_harness import TARGET, MakeBroker
from fault_proxy import FaultProxy
from ottla.client.consumer.consumer import Consumer

PATIENT = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200}


def behind(proxy: FaultProxy, fresh_broker: MakeBroker) -> str:
    """The address of a broker whose clients all come through the proxy."""
    options = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
    broker = fresh_broker(options, start=False)
    if TARGET == "ottla":  # it is found by the address it tells, which is the proxy's
        broker.port = free_port()
        proxy.target = ("127.0.0.1", broker.port)
    broker.start()
    proxy.target = proxy.target or ("127.0.0.1", broker.port)
    return proxy.address


def test_connections_that_are_cut_again_and_again_lose_and_repeat_nothing(
    fresh_broker: MakeBroker, topic: str
) -> None:
    with FaultProxy() as proxy:
        bootstrap = behind(proxy, fresh_broker)
        partitions = create_topic(bootstrap, topic, 2)
        sent = [value + bytes(300) for value in numbers(4000)]
        produce(bootstrap, topic, sent, partitions=2)

        async def main() -> None:
            options = {"max_partition_fetch_bytes": 20_000, **PATIENT}
            async with reader(bootstrap, **options) as consumer:
                consumer.assign(partitions)
                found: list[bytes] = []
                while len(found) < 4000:
                    if len(found) % 500 == 0:
                        # In the midst of an answer: its frame is never whole.
                        await asyncio.to_thread(proxy.cut_after, 30_000)
                    found += values(await take(consumer, 50))
                for partition in partitions:
                    own = [value for value in found if int(value[:-300]) % 2 == partition.partition]
                    assert own == sent[partition.partition :: 2]

        run(main)


def test_a_broker_that_falls_silent_is_left_after_the_request_timeout(
    fresh_broker: MakeBroker, topic: str
) -> None:
    with FaultProxy() as proxy:
        bootstrap = behind(proxy, fresh_broker)
        partitions = filled(bootstrap, topic, 10)

        async def main() -> None:
            options = {"request_timeout_ms": 1_000, "fetch_max_wait_ms": 200, **PATIENT}
            async with reader(bootstrap, **options) as consumer:
                consumer.assign(partitions)
                await take(consumer, 10)
                await asyncio.to_thread(proxy.stall, "to_client")
                assert await consumer.poll(2_500) == {}
                await asyncio.to_thread(proxy.heal)
                await asyncio.to_thread(produce, bootstrap, topic, [b"after"])
                assert values(await take(consumer, 1)) == [b"after"]

        run(main)


def test_polls_keep_their_time_and_close_ends_while_nothing_answers(
    fresh_broker: MakeBroker, topic: str
) -> None:
    with FaultProxy() as proxy:
        bootstrap = behind(proxy, fresh_broker)
        partitions = filled(bootstrap, topic, 10)

        async def main() -> None:
            consumer = reader(bootstrap, group_id="silent", **PATIENT)
            await consumer.start()
            consumer.assign(partitions)
            await take(consumer, 10)
            await asyncio.to_thread(proxy.stall)
            for _ in range(3):
                began = time.monotonic()
                assert await consumer.poll(200) == {}
                assert time.monotonic() - began < 1.0
            began = time.monotonic()
            await consumer.close(timeout_ms=500)
            assert time.monotonic() - began < 3.0

        run(main)


def test_answers_that_come_in_crumbs_are_put_together(fresh_broker: MakeBroker, topic: str) -> None:
    with FaultProxy() as proxy:
        bootstrap = behind(proxy, fresh_broker)
        partitions = filled(bootstrap, topic, 300)
        proxy.dribble(700, 0.002)

        async def main() -> None:
            async with reader(bootstrap) as consumer:
                consumer.assign(partitions)
                assert values(await take(consumer, 300)) == numbers(300)

        run(main)


async def read_numbers(consumer: Consumer, found: list[int], stop: int) -> None:
    async for record in consumer:
        found.append(int(record.value))
        if len(found) == stop:
            return


def test_a_broker_that_is_killed_and_started_again_is_read_on(
    fresh_broker: MakeBroker, topic: str
) -> None:
    broker = fresh_broker()
    partitions = filled(broker.address, topic, 1000)

    async def main() -> None:
        async with reader(broker.address, **PATIENT) as consumer:
            consumer.assign(partitions)
            found: list[int] = []
            await read_numbers(consumer, found, 1000)
            await asyncio.to_thread(broker.kill)
            reading = asyncio.create_task(read_numbers(consumer, found, 2000))
            await asyncio.sleep(1)
            broker.start()  # not from a thread: it would end with it
            await asyncio.to_thread(produce, broker.address, topic, numbers(2000, 1000))
            await reading
            assert found == list(range(2000))

    run(main)


@pytest.mark.parametrize("form", ["poll", "iteration"])
def test_a_broker_that_is_away_gives_nothing_until_it_is_back(
    fresh_broker: MakeBroker, topic: str, form: str
) -> None:
    broker = fresh_broker()
    partitions = filled(broker.address, topic, 10)

    async def main() -> None:
        async with reader(broker.address, **PATIENT) as consumer:
            consumer.assign(partitions)
            await take(consumer, 10)
            await asyncio.to_thread(broker.stop)
            if form == "poll":
                assert await consumer.poll(500) == {}
            else:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(consumer), 0.5)
            broker.start()  # not from a thread: it would end with it
            await asyncio.to_thread(produce, broker.address, topic, [b"back"])
            assert values(await take(consumer, 1)) == [b"back"]

    run(main)
