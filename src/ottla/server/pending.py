"""An answer that is not there yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Pending:
    """What a handler returns when its answer depends on an event still to come.

    It is resolved exactly once, with a response message, or with None where the client expects no
    answer. A client that goes away abandons it.
    """

    __slots__ = ("_callback", "_kept", "_resolved")

    holds_connection = True
    """Whether later requests of the connection wait for it. Kafka serves one request of a
    connection at a time; a produce whose append is done may be overtaken in *serving* (never in
    answering), so that one flush or one replication round answers many of them."""

    def __init__(self) -> None:
        self._callback: Callable[[Any], None] | None = None
        self._resolved = False
        self._kept: Any = None

    def when_resolved(self, callback: Callable[[Any], None]) -> None:
        """Call back with the response: later, or at once if it has come already."""
        self._callback = callback
        if self._resolved:
            callback(self._kept)

    @property
    def resolved(self) -> bool:
        return self._resolved

    def resolve(self, response: Any) -> None:
        if self._resolved:
            return
        self._resolved = True
        self._kept = response
        if self._callback is not None:
            self._callback(response)

    def abandon(self) -> None:
        """The client is gone: let go of everything that would have resolved this."""
        self._resolved = True
        self._callback = None


class PendingTask(Pending):
    """The answer of an `async def` handler. What the client asked for is carried out also if the
    client goes away; only the answer is dropped then."""

    __slots__ = ("_task",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        super().__init__()
        self._task = asyncio.ensure_future(coroutine)
        self._task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self.resolve(ConnectionAbortedError("the broker is stopping"))
        elif task.exception() is not None:
            self.resolve(task.exception())
        elif isinstance(result := task.result(), Pending):
            result.when_resolved(self.resolve)
        else:
            self.resolve(result)
