"""The results of the blocking `send` and `send_arrow`, which any thread can wait for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.values import RecordMetadata

if TYPE_CHECKING:
    from ottla.blocking.loop_thread import LoopThread
    from ottla.client.producer.columns.sent_rows import SentRange
    from ottla.client.producer.columns.sent_rows import SentRows as AsyncSentRows
    from ottla.client.producer.sent import Sent as AsyncSent

log = logging.getLogger("ottla.client")

T = TypeVar("T")


class Sent:
    """The outcome of one record; `result()` waits for it. As in concurrent.futures, timeouts are in
    seconds."""

    __slots__ = ("_callbacks", "_error", "_sent", "_thread", "is_seen")

    def __init__(self, thread: LoopThread, sent: AsyncSent | None = None) -> None:
        self._thread = thread
        self._sent = sent
        """None while the record is on its way to the loop."""
        self._error: Exception | None = None
        """The error if the record was never put into a batch."""
        self._callbacks: list[Callable[[Sent], object]] | None = None
        self.is_seen = False
        """True if the application has asked for the outcome."""

    def done(self) -> bool:
        return self._sent.done() if self._sent is not None else self._error is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return the record's metadata. Raises the record's error, or `TimeoutError`."""
        self._wait(timeout)
        if self._error is not None:
            raise self._error.with_traceback(None)
        assert self._sent is not None
        return self._sent.result()

    get = result
    """The name in kafka-python."""

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Return the record's error, None if there is none. Raises `TimeoutError`."""
        self._wait(timeout)
        return self._error if self._sent is None else self._sent.exception()

    def add_done_callback(self, callback: Callable[[Sent], object]) -> None:
        """Call `callback` with this object, in the thread of the event loop: it must be quick and
        must not block. If it is done, call at once, in this thread."""
        self.is_seen = True
        if self.done():
            callback(self)
        else:
            self._thread.post(self._observe, callback)

    def __repr__(self) -> str:
        if self._error is not None:
            return f"<Sent: {self._error!r}>"
        return "<Sent, no outcome yet>" if self._sent is None else repr(self._sent)

    def _wait(self, timeout: float | None) -> None:
        self.is_seen = True
        if not self.done():
            _wait_in(self._thread, self._finished, timeout)

    # In the loop

    def taken(self, sent: AsyncSent) -> None:
        """Note that the record was put into a batch."""
        self._sent = sent
        if self._callbacks is not None:
            self._schedule_callbacks()

    def fail(self, error: Exception) -> None:
        self._error = error
        if self._callbacks is not None:
            self._schedule_callbacks()

    def _observe(self, callback: Callable[[Sent], object]) -> None:
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append(callback)
        if self._sent is not None or self._error is not None:
            self._schedule_callbacks()

    def _schedule_callbacks(self) -> None:
        if self._sent is None:
            self._run_callbacks()
        else:
            self._sent.add_done_callback(lambda _: self._run_callbacks())

    def _run_callbacks(self) -> None:
        callbacks, self._callbacks = self._callbacks or [], None
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                log.exception("a callback for a record failed")

    async def _finished(self) -> None:
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told(_: Sent) -> None:
            if not finished.done():
                finished.set_result(None)

        self._observe(told)
        await finished


class SentRows:
    """The outcome of the rows of one `send_arrow`; timeouts are in seconds."""

    __slots__ = ("_sent", "_thread", "rows")

    def __init__(self, thread: LoopThread, sent: AsyncSentRows) -> None:
        self._thread = thread
        self._sent = sent
        self.rows = sent.rows
        """How many rows were sent."""

    def done(self) -> bool:
        return self._sent.done()

    def result(self, timeout: float | None = None) -> list[SentRange]:
        """Return where the rows went, by partition. Raises the first error, or `TimeoutError`."""
        if not self.done():
            _wait_in(self._thread, lambda: _ended(self._sent), timeout)
        return self._sent.result()

    get = result

    def exception(self, timeout: float | None = None) -> Exception | None:
        if not self.done():
            _wait_in(self._thread, lambda: _ended(self._sent), timeout)
        return self._sent.exception()

    def __repr__(self) -> str:
        return repr(self._sent)


def _wait_in(
    thread: LoopThread, work: Callable[[], Awaitable[None]], timeout: float | None
) -> None:
    async def wait() -> None:
        async with asyncio.timeout(timeout):
            await work()

    thread.call(wait)


async def _ended(sent: Any) -> None:
    """Wait for the outcome, but do not raise it: the waiting thread reads it itself."""
    try:
        await sent
    except Exception:
        if not sent.done():
            raise
