"""Addresses that do not answer are told in the log: soon, why, and once for each reason."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from broker_harness import MakeBroker
from ottla import Admin, Consumer, Producer
from ottla.blocking import Consumer as BlockingConsumer
from ottla.client.errors import ClientError
from ottla.client.network.silence import ADDRESSES_MAX, SilentAddresses
from ottla.runtime.os_runtime import OsRuntime, run

TOLD_WITHIN_S = 6.0
"""Two seconds where the machine is not busy with other tests."""
RETRIES_S = 1.0

Start = Callable[[str], Awaitable[Any]]


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, logger="ottla.client")
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Accepts connections, and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(50)
        yield server.getsockname()[1]


async def consume(where: str, **options: Any) -> None:
    async with Consumer("t", bootstrap_servers=where, **options) as consumer:
        async for _ in consumer:
            pass


async def produce(where: str) -> None:
    async with Producer(bootstrap_servers=where) as producer:
        await producer.send_and_wait("t", b"x")


async def administer(where: str) -> None:
    async with Admin(bootstrap_servers=where) as admin:
        await admin.list_topics()


def wait_for_warning(warned: Callable[[], list[str]]) -> None:
    deadline = time.monotonic() + TOLD_WITHIN_S
    while not warned() and time.monotonic() < deadline:
        time.sleep(0.02)


def told_in_time(start: Start, where: str, warned: Callable[[], list[str]]) -> list[str]:
    """What is logged in the first seconds of a client that goes on trying."""

    async def main() -> list[str]:
        task = asyncio.create_task(start(where))
        try:
            await asyncio.to_thread(wait_for_warning, warned)
            await asyncio.sleep(RETRIES_S)  # it is tried again, and not told again
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return warned()

    return asyncio.run(main())


@pytest.mark.parametrize(
    "start",
    [
        consume,
        lambda where: consume(where, group_id="g"),
        lambda where: consume(where, group_id="g", group_protocol="consumer"),
        produce,
        administer,
    ],
    ids=["consumer", "member", "member-848", "producer", "admin"],
)
def test_a_refused_connection_is_told_once(
    start: Start, closed_port: int, warned: Callable[[], list[str]]
) -> None:
    told = told_in_time(start, f"127.0.0.1:{closed_port}", warned)
    assert told == [f"cannot connect to 127.0.0.1:{closed_port}: connection refused; still trying"]


def test_each_address_is_told_of(closed_port: int, warned: Callable[[], list[str]]) -> None:
    told = told_in_time(consume, f"127.0.0.1:{closed_port},127.0.0.1:1", warned)
    assert sorted(told) == sorted(
        f"cannot connect to 127.0.0.1:{port}: connection refused; still trying"
        for port in (closed_port, 1)
    )


def test_a_name_that_nobody_knows_is_told(warned: Callable[[], list[str]]) -> None:
    (told,) = told_in_time(consume, "no-such-host.invalid:9092", warned)
    assert told.startswith("cannot connect to no-such-host.invalid:9092: ")


def test_silence_is_told_while_it_lasts(silent_port: int, warned: Callable[[], list[str]]) -> None:
    (told,) = told_in_time(consume, f"127.0.0.1:{silent_port}", warned)
    assert told == f"cannot connect to 127.0.0.1:{silent_port}: no answer for 1.5 s; still trying"


def test_a_blocking_client_tells_too(closed_port: int, warned: Callable[[], list[str]]) -> None:
    from threading import Thread

    def work() -> None:
        try:
            with BlockingConsumer(
                "t", bootstrap_servers=f"127.0.0.1:{closed_port}", default_api_timeout_ms=2_500
            ) as consumer:
                consumer.poll(100)
        except ClientError:
            pass

    thread = Thread(target=work)
    thread.start()
    wait_for_warning(warned)
    told = warned()
    thread.join(10)
    assert told == [f"cannot connect to 127.0.0.1:{closed_port}: connection refused; still trying"]


def test_an_advertised_address_that_does_not_answer_is_told(
    fresh_broker: MakeBroker, closed_port: int, warned: Callable[[], list[str]]
) -> None:
    broker = fresh_broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{closed_port}"})
    told = told_in_time(consume, broker.address, warned)
    assert f"cannot connect to 127.0.0.1:{closed_port}: connection refused; still trying" in told


# One attempt after the other


def attempts(*outcomes: Exception | None) -> None:
    async def main(runtime: OsRuntime) -> None:
        silent = SilentAddresses(runtime)
        for outcome in outcomes:
            try:
                with silent.watch(("h", 1)):
                    if outcome is not None:
                        raise outcome
            except ClientError:
                pass

    run(main)


def test_a_new_reason_and_a_new_failure_are_told(warned: Callable[[], list[str]]) -> None:
    first, second = ClientError("first"), ClientError("second")
    attempts(first, first, second, second, None, second)
    assert warned() == ["first", "second", "second"]


def test_what_is_remembered_is_bounded(warned: Callable[[], list[str]]) -> None:
    async def main(runtime: OsRuntime) -> None:
        silent = SilentAddresses(runtime)
        for port in range(ADDRESSES_MAX + 10):
            with pytest.raises(ClientError), silent.watch(("h", port)):
                raise ClientError("x")
        assert len(silent._told) == ADDRESSES_MAX

    run(main)


# Topics


@pytest.mark.parametrize("options", [{}, {"group_id": "g"}], ids=["alone", "member"])
def test_a_topic_that_was_created_by_asking_for_it_is_told_once(
    fresh_broker: MakeBroker, warned: Callable[[], list[str]], options: dict[str, Any]
) -> None:
    broker = fresh_broker()

    async def main() -> None:
        for _ in range(2):
            async with Consumer("typo", bootstrap_servers=broker.address, **options) as consumer:
                await consumer.poll(1_000)

    asyncio.run(main())
    (told,) = [line for line in warned() if "typo" in line]
    assert told.startswith("topic 'typo' did not exist; it has been created")
