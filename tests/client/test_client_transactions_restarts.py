"""The broker goes away at each step of a transaction and comes back: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from bench.brokers import Broker
from transaction_tools import (
    committed_offsets,
    create_topic,
    producer,
    read,
    run,
    speak_protocol,
    state_of,
)

from broker_harness import TARGET, MakeBroker
from ottla.client.admin.admin import Admin
from ottla.client.producer.producer import Producer
from ottla.client.values import GroupMetadata, TopicPartition

STEPS = ["init", "send", "send_offsets", "commit", "abort", "prepare", "commit_prepared"]

Disturb = Callable[[Broker, str, str, Awaitable[object]], Awaitable[None]]
"""Runs a step; if it is the chosen one, while the broker is away."""


@pytest.fixture(params=[1, 2], ids=["protocol-1", "protocol-2"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    found: int = request.param
    speak_protocol(found, monkeypatch)
    return found


async def while_away(broker: Broker, step: str, chosen: str, work: Awaitable[object]) -> None:
    """The step begins when the broker is gone."""
    if step == chosen:
        broker.kill()
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0.3)
        assert not task.done()
        broker.start()  # not in a thread: the process would end with it
        await task
    else:
        await work


async def while_it_dies(broker: Broker, step: str, chosen: str, work: Awaitable[object]) -> None:
    """The step has begun when the broker dies: its request may have been carried out."""
    if step == chosen:
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0.001)
        broker.kill()
        broker.start()  # not in a thread: the process would end with it
        await task
    else:
        await work


async def until_marked(broker: Broker, transactional_id: str) -> None:
    """Kafka 4.3 may lose markers that it has to write again while it starts."""
    for _ in range(200 if TARGET == "kafka" else 0):
        if "Complete" in await state_of(broker.address, transactional_id):
            return
        await asyncio.sleep(0.05)


async def all_steps(broker: Broker, topic: str, chosen: str, disturb: Disturb) -> None:
    """Three transactions, committed, aborted, and prepared; `chosen` is disturbed."""

    async def step(name: str, work: Awaitable[object]) -> None:
        await disturb(broker, name, chosen, work)

    async def send(writer: Producer, value: bytes) -> None:
        await writer.send(topic, value)
        await writer.flush()

    async with producer(broker.address, topic, request_timeout_ms=5_000) as writer:
        await step("init", writer.init_transactions())
        await writer.begin_transaction()
        await step("send", send(writer, b"committed"))
        offsets = {TopicPartition(topic, 0): 7}
        group = GroupMetadata(f"group-of-{topic}")
        await step("send_offsets", writer.send_offsets_to_transaction(offsets, group))
        await writer.send(topic, b"too")
        await step("commit", writer.commit_transaction())
        await until_marked(broker, topic)
        await writer.begin_transaction()
        await writer.send_and_wait(topic, b"aborted")
        await step("abort", writer.abort_transaction())
        await until_marked(broker, topic)
        await writer.begin_transaction()
        await writer.send(topic, b"prepared")
        await step("prepare", writer.prepare_transaction())
        prepared = await writer.prepare_transaction()
    async with Admin(bootstrap_servers=broker.address) as admin:
        await step("commit_prepared", admin.commit_prepared(prepared))
        await admin.commit_prepared(prepared)


def check(broker: Broker, topic: str) -> None:
    assert read(broker.address, topic) == ["committed", "too", "prepared"]
    assert committed_offsets(broker.address, f"group-of-{topic}") == {(topic, 0): 7}


@pytest.mark.parametrize("chosen", STEPS)
def test_a_step_waits_for_a_broker_that_is_away(
    fresh_broker: MakeBroker, topic: str, protocol: int, chosen: str
) -> None:
    broker: Broker = fresh_broker()
    create_topic(broker.address, topic)
    run(lambda: all_steps(broker, topic, chosen, while_away))
    check(broker, topic)


@pytest.mark.ottla_only  # see `until_marked`
@pytest.mark.parametrize("chosen", STEPS)
def test_a_step_outlives_the_death_of_the_broker(
    fresh_broker: MakeBroker, topic: str, protocol: int, chosen: str
) -> None:
    broker: Broker = fresh_broker()
    create_topic(broker.address, topic)
    run(lambda: all_steps(broker, topic, chosen, while_it_dies))
    check(broker, topic)
