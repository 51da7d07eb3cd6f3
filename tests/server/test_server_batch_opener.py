"""How much is opened at once, who waits, and for how long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.server import batch_opener
from ottla.broker.server.batch_opener import BatchOpener, OpeningQueue
from ottla.protocol.errors import KafkaError
from ottla.runtime.os_runtime import OsRuntime


def run(story: Callable[[OsRuntime], Any]) -> None:
    async def main() -> None:
        runtime = OsRuntime()
        try:
            await story(runtime)
        finally:
            await runtime.close()

    asyncio.run(main())


class Gate:
    """Work that goes on when the test says so."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.running = 0

    def __call__(self, bytes_max: int) -> int:
        self.running += 1
        assert self._open.wait(20)
        self.running -= 1
        return bytes_max

    def open(self) -> None:
        self._open.set()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def test_no_more_than_so_many_are_opened_at_once() -> None:
    async def story(runtime: OsRuntime) -> None:
        gate, queue = Gate(), OpeningQueue(runtime, 1000, 2)
        tasks = [asyncio.ensure_future(queue.run(10, gate)) for _ in range(5)]
        await until(lambda: gate.running == 2)
        await asyncio.sleep(0.05)
        assert gate.running == 2
        gate.open()
        assert await asyncio.gather(*tasks) == [1000] * 5

    run(story)


def test_those_that_take_much_room_do_not_hold_up_the_others() -> None:
    async def story(runtime: OsRuntime) -> None:
        gate, opener = Gate(), BatchOpener(runtime)
        large = [asyncio.ensure_future(opener.large.run(10, gate)) for _ in range(50)]
        await until(lambda: gate.running == 1)
        assert await opener.small.run(10, lambda bytes_max: bytes_max) == opener.small.bytes_max
        gate.open()
        await asyncio.gather(*large)

    run(story)


def test_one_whose_client_is_gone_counts_until_its_thread_has_ended() -> None:
    async def story(runtime: OsRuntime) -> None:
        gate, queue = Gate(), OpeningQueue(runtime, 1000, 1)
        gone = asyncio.ensure_future(queue.run(10, gate))
        await until(lambda: gate.running == 1)
        gone.cancel()
        following = asyncio.ensure_future(queue.run(10, lambda bytes_max: gate.running))
        await asyncio.sleep(0.05)
        assert not following.done()
        gate.open()
        assert await following == 0

    run(story)


def test_waiting_is_bounded_in_bytes_and_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_opener, "WAIT_S_MAX", 0.1)
    monkeypatch.setattr(batch_opener, "WAITING_BYTES_MAX", 100)

    async def story(runtime: OsRuntime) -> None:
        gate, queue = Gate(), OpeningQueue(runtime, 1000, 1)
        large = asyncio.ensure_future(queue.run(500, gate))
        await until(lambda: gate.running == 1)
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await queue.run(1, gate)  # the one before took all the room
        gate.open()
        await large
        gate = Gate()
        first = asyncio.ensure_future(queue.run(50, gate))
        await until(lambda: gate.running == 1)
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await queue.run(50, gate)  # it waits, in vain
        gate.open()
        await first
        assert await queue.run(100, lambda bytes_max: bytes_max) == 1000

    run(story)


def test_an_error_is_told_and_frees_the_place() -> None:
    async def story(runtime: OsRuntime) -> None:
        queue = OpeningQueue(runtime, 1000, 1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await queue.run(1, lambda bytes_max: bytes_max // 0)

    run(story)
