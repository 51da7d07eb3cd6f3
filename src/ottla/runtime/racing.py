"""Returns the first of several attempts that succeeds, if each alone might hang."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class AllFailed(Exception):
    """No attempt succeeded; `errors` has the error of each, in their order."""

    def __init__(self, errors: Sequence[BaseException]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = list(errors)


async def first_of(
    attempts: Sequence[Callable[[], Awaitable[T]]],
    *,
    stagger_s: float,
    discard: Callable[[T], object],
) -> T:
    """Start the next attempt as soon as one has failed, or after `stagger_s` without a result.

    The others are cancelled at the first success; a result that comes too late is passed to
    `discard`.
    """
    tasks: list[asyncio.Task[T]] = []
    winner: asyncio.Task[T] | None = None
    try:
        while winner is None and (len(tasks) < len(attempts) or _running(tasks)):
            begun = len(tasks) < len(attempts)
            if begun:
                tasks.append(asyncio.create_task(_run(attempts[len(tasks)])))
            timeout_s = stagger_s if len(tasks) < len(attempts) else None
            await asyncio.wait(
                _running(tasks), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            winner = next((task for task in tasks if _succeeded(task)), None)
    finally:
        await _end([task for task in tasks if task is not winner], discard)
    if winner is None:
        raise AllFailed([error for task in tasks if (error := task.exception()) is not None])
    return winner.result()


def _run(attempt: Callable[[], Awaitable[T]]) -> Coroutine[Any, Any, T]:
    async def run() -> T:
        return await attempt()

    return run()


def _running(tasks: Sequence[asyncio.Task[T]]) -> list[asyncio.Task[T]]:
    return [task for task in tasks if not task.done()]


def _succeeded(task: asyncio.Task[T]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


async def _end(tasks: Sequence[asyncio.Task[T]], discard: Callable[[T], object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if _succeeded(task):
            discard(task.result())
