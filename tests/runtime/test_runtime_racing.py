"""The first attempt that succeeds, where each alone might hang."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.runtime.racing import AllFailed, first_of

Attempt = Callable[[], Awaitable[str]]


def race(*attempts: Attempt, stagger_s: float = 0.02) -> tuple[str, list[str]]:
    """The winner, and the results that came too late."""
    discarded: list[str] = []

    async def main() -> str:
        async with asyncio.timeout(5):
            return await first_of(attempts, stagger_s=stagger_s, discard=discarded.append)

    return asyncio.run(main()), discarded


def says(name: str, after_s: float = 0.0, log: list[str] | None = None) -> Attempt:
    async def attempt() -> str:
        if log is not None:
            log.append(name)
        await asyncio.sleep(after_s)
        return name

    return attempt


def fails(name: str) -> Attempt:
    async def attempt() -> str:
        raise OSError(name)

    return attempt


def test_the_first_that_answers_in_time_is_alone() -> None:
    log: list[str] = []
    assert race(says("a", log=log), says("b", log=log), stagger_s=1) == ("a", [])
    assert log == ["a"]


def test_the_next_begins_at_once_when_one_fails() -> None:
    assert race(fails("a"), says("b"), stagger_s=60) == ("b", [])


def test_the_next_begins_beside_one_that_is_slow() -> None:
    assert race(says("a", 60), says("b", 60), says("c"))[0] == "c"


def test_a_slow_one_may_still_win() -> None:
    assert race(says("a", 0.1), says("b", 60))[0] == "a"


def test_when_all_fail_each_reason_is_kept_in_order() -> None:
    with pytest.raises(AllFailed, match="a; b") as caught:
        race(fails("a"), fails("b"))
    assert [str(error) for error in caught.value.errors] == ["a", "b"]


def test_without_attempts_there_is_nothing_to_win() -> None:
    with pytest.raises(AllFailed):
        race()


def test_a_result_that_comes_too_late_is_discarded() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "late"
        return "never"

    assert race(stubborn, says("b")) == ("b", ["late"])


def test_giving_up_ends_every_attempt() -> None:
    ended: list[str] = []

    async def attempt() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("x")
        return "never"

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await first_of([attempt, attempt], stagger_s=0.01, discard=lambda _: None)

    asyncio.run(main())
    assert ended == ["x", "x"]
