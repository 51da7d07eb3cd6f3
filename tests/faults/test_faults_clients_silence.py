"""A broker that takes every request and answers none: no public call hangs, and each says why."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
from client_load import create_topic, run, start_behind
from silence_calls import (
    ADMIN_CALLS,
    CONSUMER_CALLS,
    LOCAL_ADMIN_CALLS,
    LOCAL_CONSUMER_CALLS,
    LOCAL_PRODUCER_CALLS,
    PATIENT_CONSUMER_CALLS,
    PLACE,
    PRODUCER_CALLS,
    TIMED_CONSUMER_CALLS,
    TOPIC,
    ConsumerCall,
    awaited_methods,
)

from broker_harness import MakeBroker
from fault_proxy import FaultProxy
from ottla import Admin, ClientError, Consumer, Producer, Wakeup

LIMITS = {
    "request_timeout_ms": 600,
    "default_api_timeout_ms": 1_500,
    "socket_connection_setup_timeout_ms": 500,
}
PRODUCER_LIMITS = {**LIMITS, "max_block_ms": 1_500, "delivery_timeout_ms": 1_500}
SAYS_WHY = re.compile(r"within \d+ ms|within [a-z_]+_ms|in time|in no version")
ALLOWED_S = 5.0
"""The time limits, and then some for a busy machine."""


@pytest.fixture
def proxy(fresh_broker: MakeBroker) -> Iterator[FaultProxy]:
    with FaultProxy() as proxy:
        start_behind(proxy, fresh_broker)
        run(lambda: create_topic(proxy.address, TOPIC))
        yield proxy


async def outcomes(calls: dict[str, Awaitable[Any]]) -> dict[str, Any]:
    """What each call returned or raised; all are made at once, and none may hang."""
    tasks = {name: asyncio.ensure_future(call) for name, call in calls.items()}
    await asyncio.wait(tasks.values(), timeout=ALLOWED_S)
    hanging = [name for name, task in tasks.items() if not task.done()]
    assert not hanging, f"no end within {ALLOWED_S} s: {hanging}"
    return {name: task.exception() or task.result() for name, task in tasks.items()}


def expect_errors(found: dict[str, Any]) -> None:
    for name, outcome in found.items():
        print(f"{name}: {type(outcome).__name__}: {outcome}")
    assert [name for name, outcome in found.items() if not isinstance(outcome, ClientError)] == []
    assert [name for name, outcome in found.items() if not SAYS_WHY.search(str(outcome))] == []


async def expect_end(work: Awaitable[Any], within_s: float = ALLOWED_S) -> None:
    began = time.monotonic()
    await asyncio.wait([asyncio.ensure_future(work)], timeout=20)
    assert time.monotonic() - began < within_s


def test_every_call_is_tried() -> None:
    assert awaited_methods(Admin) == ADMIN_CALLS.keys() | LOCAL_ADMIN_CALLS
    assert awaited_methods(Producer) == PRODUCER_CALLS.keys() | LOCAL_PRODUCER_CALLS
    tried = CONSUMER_CALLS.keys() | TIMED_CONSUMER_CALLS.keys() | PATIENT_CONSUMER_CALLS.keys()
    assert awaited_methods(Consumer) == tried | LOCAL_CONSUMER_CALLS


@pytest.mark.parametrize("make", [Admin, Producer, Consumer])
def test_no_start_hangs(make: Callable[..., Any]) -> None:
    async def main() -> None:
        with FaultProxy() as proxy:
            client = make(bootstrap_servers=proxy.address, **LIMITS)
            expect_errors(await outcomes({"start": client.start()}))
            await expect_end(client.close(), 1)

    run(main)


def test_no_admin_call_hangs(proxy: FaultProxy) -> None:
    async def main() -> None:
        async with Admin(bootstrap_servers=proxy.address, **LIMITS) as admin:
            await admin.list_topics()
            proxy.stall()
            expect_errors(await outcomes({name: call(admin) for name, call in ADMIN_CALLS.items()}))
            await expect_end(admin.close(), 1)

    run(main)


async def staged(producer: Producer, stage: str) -> None:
    """Bring a producer to where its call makes sense."""
    if stage == "plain":
        await producer.send_and_wait(TOPIC, b"x")
    if stage in ("open", "prepared"):
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send_and_wait(TOPIC, b"x")
    if stage == "prepared":
        await producer.prepare_transaction()


def test_no_producer_call_hangs(proxy: FaultProxy) -> None:
    async def main() -> None:
        producers: dict[str, Producer] = {}
        for name, call in PRODUCER_CALLS.items():
            named = {} if call.stage == "plain" else {"transactional_id": name}
            producers[name] = Producer(bootstrap_servers=proxy.address, **PRODUCER_LIMITS, **named)
            await producers[name].start()
            await staged(producers[name], call.stage)
        proxy.stall()
        calls = {name: PRODUCER_CALLS[name].make(one) for name, one in producers.items()}
        found = await outcomes(calls)
        assert found.pop("flush") is None  # the record has an outcome, and somebody was told
        expect_errors(found)
        closing = {name: producer.close() for name, producer in producers.items()}
        for outcome in (await outcomes(closing)).values():
            assert outcome is None or isinstance(outcome, ClientError)

    run(main)


async def members(address: str, names: Iterable[str]) -> dict[str, Consumer]:
    """For each call a consumer in a group of its own, which has its partition."""
    found = {
        name: Consumer(TOPIC, bootstrap_servers=address, group_id=name, **LIMITS) for name in names
    }

    async def join(consumer: Consumer) -> None:
        await consumer.start()
        while PLACE not in consumer.assignment():
            await consumer.poll(100)

    await asyncio.gather(*map(join, found.values()))
    return found


def test_no_consumer_call_hangs(proxy: FaultProxy) -> None:
    async def main() -> None:
        everyone = await members(
            proxy.address, [*CONSUMER_CALLS, *TIMED_CONSUMER_CALLS, *PATIENT_CONSUMER_CALLS]
        )

        def made(calls: Mapping[str, ConsumerCall]) -> dict[str, Awaitable[Any]]:
            return {name: call(everyone[name]) for name, call in calls.items()}

        everyone["position"].seek_to_end()
        proxy.stall()
        try:
            expect_errors(await outcomes(made(CONSUMER_CALLS)))
            for outcome in (await outcomes(made(TIMED_CONSUMER_CALLS))).values():
                assert len(outcome) == 0
            await expect_wakeup(made(PATIENT_CONSUMER_CALLS), everyone)
            await outcomes({"unsubscribe": everyone["poll"].unsubscribe()})
        finally:
            closing = {name: consumer.close(1_000) for name, consumer in everyone.items()}
            assert set((await outcomes(closing)).values()) == {None}

    run(main)


async def expect_wakeup(calls: dict[str, Awaitable[Any]], consumers: dict[str, Consumer]) -> None:
    waiting = asyncio.ensure_future(outcomes(calls))
    await asyncio.sleep(1)
    assert not waiting.done()
    for name in calls:
        consumers[name].wakeup()
    found = await waiting
    ended = found.pop("process")
    assert ended is None or isinstance(ended, ClientError)  # if there was something to commit
    assert {type(outcome) for outcome in found.values()} == {Wakeup}
