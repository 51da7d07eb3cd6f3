"""Answers that depend on an event still to come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any


class Pending:
    """A handler returns this if its answer depends on an event still to come.

    It is resolved exactly once, with a response message, or with None if the client expects no
    answer. It is abandoned if the client disconnects.
    """

    __slots__ = ("_callback", "_resolved", "_response")

    holds_connection = True
    """True if later requests of the connection wait for it. Kafka serves one request of a
    connection at a time. After the append of a produce the next request may be *served* (but never
    answered) before it, so that one flush or one replication round answers many of them."""

    def __init__(self) -> None:
        self._callback: Callable[[Any], None] | None = None
        self._resolved = False
        self._response: Any = None

    def when_resolved(self, callback: Callable[[Any], None]) -> None:
        """Call `callback` with the response: later, or at once if it is known already."""
        self._callback = callback
        if self._resolved:
            callback(self._response)

    @property
    def resolved(self) -> bool:
        return self._resolved

    @property
    def result(self) -> Any:
        """The handler's result: the response if it is known already, else this pending answer."""
        return self._response if self._resolved else self

    def resolve(self, response: Any) -> None:
        if self._resolved:
            return
        self._resolved = True
        self._response = response
        if self._callback is not None:
            self._callback(response)

    def abandon(self) -> None:
        """Release everything that would have resolved this, because the client has disconnected."""
        self._resolved = True
        self._callback = None


class PendingTask(Pending):
    """The answer of an `async def` handler. If the client disconnects, the handler still finishes,
    and only the answer is dropped."""

    __slots__ = ("_task",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        super().__init__()
        self._task = _start(coroutine, self)


class ClientTask(Pending):
    """A task that only matters to its client: it is cancelled if the client disconnects."""

    __slots__ = ("_task",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        super().__init__()
        self._task = _start(coroutine, self)

    def abandon(self) -> None:
        super().abandon()
        self._task.cancel()


def _start(coroutine: Coroutine[Any, Any, Any], pending: Pending) -> asyncio.Future[Any]:
    """Run the coroutine as a task; its outcome resolves `pending`."""
    task = asyncio.ensure_future(coroutine)
    task.add_done_callback(partial(_finished, pending))
    return task


def _finished(pending: Pending, task: asyncio.Future[Any]) -> None:
    if task.cancelled():
        pending.resolve(ConnectionAbortedError("the broker is stopping"))
    elif task.exception() is not None:
        pending.resolve(task.exception())
    elif isinstance(result := task.result(), Pending):
        result.when_resolved(pending.resolve)
    else:
        pending.resolve(result)


async def resolved(pending: Pending) -> Any:
    """Wait for the response of `pending`, and abandon it if the waiting task is cancelled."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def resolve(response: Any) -> None:
        if answer.done():
            return
        if isinstance(response, Exception):
            answer.set_exception(response)
        else:
            answer.set_result(response)

    pending.when_resolved(resolve)
    try:
        return await answer
    except asyncio.CancelledError:
        pending.abandon()
        raise
