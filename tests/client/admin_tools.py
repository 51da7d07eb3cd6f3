"""Running a piece of administration against a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from confluent_kafka import Producer

from ottla.client.admin.admin import Admin

T = TypeVar("T")


def administer(bootstrap: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    """On plain asyncio: the client must not need uvloop."""

    async def main() -> T:
        async with Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=20_000) as admin:
            return await work(admin)

    return asyncio.run(main())


async def until(happens: Callable[[], Awaitable[bool]], within_s: float = 15) -> None:
    async with asyncio.timeout(within_s):
        while not await happens():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def fill(bootstrap: str, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=partition, timestamp=1000 + number)
    assert producer.flush(20) == 0
