"""How a producer begins and ends: in time, on one event loop, and without losing records."""

from __future__ import annotations

import asyncio
import time

import pytest
from producer_tools import create_topic, run, values
from scripted_leaders import TOPIC, ScriptedLeaders

from broker_harness import MakeBroker
from fault_proxy import FaultProxy
from ottla.client.errors import DeliveryFailed, IllegalState, NoBrokerReachable, ProducerClosed
from ottla.client.producer.producer import Producer
from ottla.client.producer.sent import Sent

COUNT = 164


def lingering(bootstrap: str, **options: object) -> Producer:
    return Producer(bootstrap_servers=bootstrap, linger_ms=20_000, **options)  # type: ignore[arg-type]


async def give(sender: Producer, topic: str) -> list[Sent]:
    return [await sender.send(topic, b"%d" % number) for number in range(COUNT)]


# Leaving by an exception


def test_an_exception_does_not_lose_what_was_given(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def fail() -> None:
        async with lingering(bootstrap) as sender:
            await give(sender, topic)
            raise ZeroDivisionError

    async def main() -> None:
        with pytest.raises(ZeroDivisionError) as caught:
            await fail()
        assert not hasattr(caught.value, "__notes__")

    run(main)
    assert values(bootstrap, topic) == [b"%d" % number for number in range(COUNT)]


def test_a_cancelled_task_does_not_lose_what_was_given(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def work() -> None:
        async with lingering(bootstrap) as sender:
            await give(sender, topic)
            await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
    assert len(values(bootstrap, topic)) == COUNT


def test_what_cannot_be_delivered_is_a_note_and_a_warning(
    fresh_broker: MakeBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = fresh_broker()
    create_topic(broker.address, topic)
    short = {"delivery_timeout_ms": 700, "request_timeout_ms": 500, "linger_ms": 0}

    async def fail() -> None:
        async with Producer(bootstrap_servers=broker.address, **short) as sender:  # type: ignore[arg-type]
            await sender.send_and_wait(topic, b"x")
            broker.kill()
            await give(sender, topic)
            raise ZeroDivisionError

    async def main() -> None:
        with pytest.raises(ZeroDivisionError) as caught:
            await fail()
        (note,) = caught.value.__notes__
        assert note.startswith(f"{COUNT} records were not delivered")
        (line,) = [line for line in caplog.records if line.message == note]
        assert line.levelname == "WARNING"

    run(main)


def test_a_second_cancellation_ends_the_wait_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster:
            given = asyncio.Event()

            async def work() -> None:
                async with lingering(cluster.bootstrap) as sender:
                    cluster.leader = -1
                    await give(sender, TOPIC)
                    given.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await given.wait()
            task.cancel()
            await asyncio.sleep(0.2)
            assert not task.done()
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 2
            assert f"{COUNT} records were not delivered" in caplog.text

    run(main)


# Beginning


def test_a_start_without_any_broker_takes_no_longer_than_max_block_ms() -> None:
    async def main() -> None:
        with FaultProxy() as proxy:
            address = proxy.address
        sender = Producer(bootstrap_servers=address, max_block_ms=400)
        began = time.monotonic()
        with pytest.raises(NoBrokerReachable):
            await sender.start()
        assert time.monotonic() - began < 5
        await sender.close()

    run(main)


# One event loop


def test_a_producer_of_another_loop_says_so_at_once(bootstrap: str, topic: str) -> None:
    sender = lingering(bootstrap)

    async def begin() -> None:
        await sender.start()
        await sender.partitions_for(topic)

    asyncio.run(begin())

    async def elsewhere() -> None:
        for use in (
            sender.send(topic, b"x"),
            sender.send("another-topic", b"x"),
            sender.flush(),
            sender.partitions_for(topic),
            sender.close(),
        ):
            with pytest.raises(IllegalState, match="made on another event loop"):
                await use

    run(elsewhere)


# Closing


def test_a_close_waits_for_the_one_under_way() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster:
            sender = lingering(cluster.bootstrap)
            await sender.start()
            cluster.leader = -1
            sent = await sender.send(TOPIC, b"x")
            first = asyncio.create_task(sender.close())
            await asyncio.sleep(0.1)
            second = asyncio.create_task(sender.close())
            await asyncio.sleep(0.3)
            assert not first.done()
            assert not second.done()
            cluster.leader = 1
            await asyncio.gather(first, second)
            assert sent.result().offset == 0

    run(main)


def test_a_second_close_with_a_timeout_ends_the_first() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster:
            sender = lingering(cluster.bootstrap)
            await sender.start()
            cluster.leader = -1
            sent = await sender.send(TOPIC, b"x")
            first = asyncio.create_task(sender.close())
            await asyncio.sleep(0.1)
            results = await asyncio.gather(
                first, sender.close(timeout_ms=100), return_exceptions=True
            )
            assert {type(one) for one in results} == {DeliveryFailed, type(None)}
            assert isinstance(sent.exception(), ProducerClosed)

    run(main)


def test_after_a_cancelled_close_what_was_under_way_has_no_known_outcome() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster:
            sender = lingering(cluster.bootstrap)
            await sender.start()
            cluster.is_silent = True
            sent = await sender.send(TOPIC, b"x")
            closing = asyncio.create_task(sender.close())
            for _ in range(500):
                if cluster.taken:
                    break
                await asyncio.sleep(0.01)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            with pytest.raises(DeliveryFailed, match=r"have no known outcome.*under way and may"):
                await sender.close()
            assert isinstance(sent.exception(), ProducerClosed)
            assert cluster.taken == [b"x"]

    run(main)


def test_what_never_left_was_not_delivered() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster:
            cluster.leader = -1
            sender = lingering(cluster.bootstrap)
            await sender.start()
            await sender.send(TOPIC, b"x")
            with pytest.raises(
                DeliveryFailed, match=r"were not delivered.*closed before"
            ) as caught:
                await sender.close(timeout_ms=100)
            assert "may have arrived" not in str(caught.value)

    run(main)
