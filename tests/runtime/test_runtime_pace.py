"""Work in order: at once if it is short, else in slices in which others have their turn."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator

import pytest

from ottla.runtime.os_runtime import OsRuntime, run
from ottla.runtime.pace import SLICE_S, Backlog


def busy(seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        pass


def test_short_work_is_done_at_once():
    done: list[int] = []

    def work() -> Iterator[None]:
        for number in range(10):
            done.append(number)
            yield

    async def main(runtime: OsRuntime) -> None:
        assert Backlog(runtime, "work").take(work()) is None
        assert done == list(range(10))

    run(main)


def test_long_work_lets_others_have_their_turn_and_later_work_waits_for_it():
    events: list[str] = []

    def work(name: str, steps: int, step_s: float) -> Iterator[None]:
        for _ in range(steps):
            busy(step_s)
            yield
        events.append(name)

    async def main(runtime: OsRuntime) -> None:
        backlog = Backlog(runtime, "work")
        first = backlog.take(work("first", 5, SLICE_S))
        second = backlog.take(work("second", 1, 0))
        assert first is not None
        assert second is not None
        turns = 0
        while not first.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 4
        await backlog.finished()
        assert second.done()
        assert events == ["first", "second"]
        assert backlog.take(work("third", 1, 0)) is None

    run(main)


def test_work_that_fails_later_is_told_of_and_does_not_hold_up_the_rest(
    caplog: pytest.LogCaptureFixture,
):
    def failing() -> Iterator[None]:
        yield
        raise ValueError("no")

    def waiting(gate: list[bool]) -> Iterator[None]:
        busy(SLICE_S)
        yield
        gate.append(True)

    async def main(runtime: OsRuntime) -> None:
        backlog = Backlog(runtime, "work")
        gates: list[bool] = []
        with pytest.raises(ValueError, match="no"):
            backlog.take(failing())
        backlog.take(waiting(gates))
        backlog.take(failing())
        backlog.take(waiting(gates))
        await backlog.finished()
        assert gates == [True, True]

    with caplog.at_level(logging.ERROR):
        run(main)
    assert "work failed" in caplog.text
