"""Work in the event loop that a thread waits for; it may run functions in that thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar, cast

from ottla.client.errors import IllegalState

log = logging.getLogger("ottla.client")

T = TypeVar("T")

ABANDON_WAIT_S = 5.0
"""How long an interrupted thread waits for its work to end."""


class Call(Generic[T]):
    """`begin` it in the loop, `wait` for it in the thread, where it may also run functions."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Functions for the thread to run; None when the work has ended.
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._task: asyncio.Task[None] | None = None
        self._is_abandoned = False
        self._is_over = False
        self._value: T | None = None
        self._error: BaseException | None = None

    # In the loop

    def begin(self, work: Callable[[], Awaitable[T]]) -> None:
        self._task = self._loop.create_task(self._run(work))

    async def _run(self, work: Callable[[], Awaitable[T]]) -> None:
        try:
            if not self._is_abandoned:
                self._value = await work()
        except BaseException as error:
            self._error = error
        finally:
            self._is_over = True
            self._inbox.put(None)

    async def in_caller(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Run a function in the waiting thread, and return its result."""
        answer: asyncio.Future[Any] = self._loop.create_future()

        def run() -> None:
            if self._is_abandoned:
                return self._answer(answer.cancel)
            try:
                value = function(*arguments)
            except Exception as error:
                return self._answer(_settle, answer, None, error)
            return self._answer(_settle, answer, value, None)

        self._inbox.put(run)
        return await answer

    def tell_caller(self, function: Callable[..., object], *arguments: object) -> None:
        """Run a function in the waiting thread, without waiting for it."""

        def run() -> None:
            try:
                function(*arguments)
            except Exception:
                log.exception("a callback failed")

        self._inbox.put(run)

    # In the thread

    def wait(self) -> T:
        try:
            while (request := self._inbox.get()) is not None:
                request()
        except BaseException:  # above all Ctrl-C
            self._abandon()
            raise
        error, self._error = self._error, None
        if isinstance(error, asyncio.CancelledError):
            raise IllegalState("the client was closed meanwhile")
        if error is not None:
            raise error
        return cast("T", self._value)

    def _answer(self, settle: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(settle, *arguments)

    def _abandon(self) -> None:
        """Cancel the work, and give it a moment to clean up."""
        if self._is_over:
            return
        self._is_abandoned = True
        self._loop.call_soon_threadsafe(self._cancel)
        try:
            while (request := self._inbox.get(timeout=ABANDON_WAIT_S)) is not None:
                request()
        except Empty:
            pass

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _settle(answer: asyncio.Future[Any], value: object, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)
