"""The file with the committed offset: written now and then, and never twice at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ottla.broker.quorum.committed_mark import INTERVAL_S, CommittedMark, read
from ottla.runtime.os_disk import OsDisk


class SlowThreads:
    """A runtime whose threads take a while."""

    def __init__(self) -> None:
        self.disk = OsDisk()
        self.now = 100.0
        self.clock = SimpleNamespace(now=lambda: self.now)
        self.tasks: list[asyncio.Task[None]] = []
        self.writing = 0
        self.written: list[int] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    async def in_thread(self, write: Callable[..., None], *arguments: Any) -> None:
        self.writing += 1
        assert self.writing == 1, "two writes at once"
        await asyncio.sleep(0.01)
        write(*arguments)
        self.written.append(arguments[-1])
        self.writing -= 1


def test_calls_that_come_before_the_first_write_begins_cause_no_second_one(tmp_path: Path) -> None:
    async def story() -> None:
        runtime = SlowThreads()
        mark = CommittedMark(runtime, str(tmp_path))  # type: ignore[arg-type]
        mark.advance(5)
        mark.advance(6)
        await asyncio.gather(*runtime.tasks)
        mark.advance(7)
        runtime.now += INTERVAL_S
        mark.advance(7)
        mark.advance(8)
        await asyncio.gather(*runtime.tasks)
        assert runtime.written == [5, 7]

    asyncio.run(story())
    assert read(OsDisk(), str(tmp_path)) == 7


def test_closing_writes_the_last_offset_after_a_write_that_is_under_way(tmp_path: Path) -> None:
    async def story() -> None:
        runtime = SlowThreads()
        mark = CommittedMark(runtime, str(tmp_path))  # type: ignore[arg-type]
        mark.advance(5)
        await asyncio.sleep(0)
        await mark.close(9)
        await asyncio.gather(*runtime.tasks)
        assert runtime.written == [5, 9]

    asyncio.run(story())
    assert read(OsDisk(), str(tmp_path)) == 9


def test_a_write_that_begins_only_after_closing_writes_nothing_older(tmp_path: Path) -> None:
    async def story() -> None:
        runtime = SlowThreads()
        mark = CommittedMark(runtime, str(tmp_path))  # type: ignore[arg-type]
        mark.advance(5)
        await mark.close(9)
        await asyncio.gather(*runtime.tasks)
        assert runtime.written == [9]

    asyncio.run(story())
    assert read(OsDisk(), str(tmp_path)) == 9
