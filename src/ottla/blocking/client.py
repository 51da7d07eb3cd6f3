"""What the three blocking clients share: a place in the loop's thread, and calls into it."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ottla.blocking.call import Call
from ottla.blocking.loop_thread import LoopThread, acquire, release
from ottla.client.errors import IllegalState

T = TypeVar("T")
C = TypeVar("C", bound=type)


_lock = threading.Lock()
"""Held for a moment, by whoever begins to close a client."""


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()  # in a forked child, whoever held the old one is not there


os.register_at_fork(after_in_child=_renew_lock)


class Closing:
    """One thread closes a client; others that want to, meanwhile, wait until it has."""

    def __init__(self, thread: LoopThread) -> None:
        self.is_over = threading.Event()
        self._thread = thread
        self._closed_by = threading.get_ident()

    def wait(self) -> None:
        """But for callbacks, which the closing waits for, and a forked child, where nobody
        closes."""
        is_callback = self._thread.is_current or threading.get_ident() == self._closed_by
        if not (is_callback or self._thread.is_forked):
            self.is_over.wait()


class BlockingClient:
    """A client of asyncio behind calls that wait. Several threads may use it."""

    _thread: LoopThread | None = None
    _closing: Closing | None = None

    def _open(self, start: Callable[[], Awaitable[object]]) -> None:
        if self._thread is not None:
            raise IllegalState(f"this {type(self).__name__} is started already")
        thread = acquire()
        try:
            thread.call(start)
        except BaseException:
            release(thread)
            raise
        self._thread = thread

    def _shut(
        self,
        close: Callable[[], Awaitable[object]],
        make_call: Callable[[LoopThread], Call[Any]] | None = None,
    ) -> None:
        """Closing again does nothing, but waits for a closing that is under way; and closing in a
        forked child what is the parent's does nothing either."""
        with _lock:
            thread, self._thread = self._thread, None
            closing = self._closing = self._closing if thread is None else Closing(thread)
        if closing is None:
            return
        if thread is None:
            closing.wait()
            return
        try:
            if not thread.is_forked:
                thread.call(close, None if make_call is None else make_call(thread))
        finally:
            release(thread)
            closing.is_over.set()

    def _running(self) -> LoopThread:
        if self._thread is None:
            name = type(self).__name__
            raise IllegalState(
                f"this {name} is not connected: write `with {name}(...) as ...`, or call start() "
                "first and use it before close()"
            )
        return self._thread

    def _call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Wait for something asynchronous."""
        return self._running().call(work)

    def _do(self, work: Callable[[], T]) -> T:
        """Something that takes no time but must happen in the loop's thread."""

        async def run() -> T:
            return work()

        return self._call(run)


def documented_as(twin: type) -> Callable[[C], C]:
    """Let methods without a docstring have that of the class they stand for, without `await`."""

    def document(own: C) -> C:
        for name, method in inspect.getmembers(own, inspect.isfunction):
            text = inspect.getdoc(getattr(twin, name, None))
            if method.__doc__ is None and text and not name.startswith("_"):
                method.__doc__ = text.replace("await ", "").replace("async ", "")
        return own

    return document
