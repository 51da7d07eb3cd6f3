"""A blocking client's use of the shared event loop: its calls run in the loop's thread."""

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
"""Held for a moment by a thread that begins to close a client."""


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()  # in a forked child, the thread that held the old one is missing


os.register_at_fork(after_in_child=_renew_lock)


class Closing:
    """Lets one thread close a client; other threads that close it wait until that is done."""

    def __init__(self, thread: LoopThread) -> None:
        self.is_over = threading.Event()
        self._thread = thread
        self._closed_by = threading.get_ident()

    def wait(self) -> None:
        """Wait until the client is closed, except in callbacks, which the closing waits for, and in
        a forked child, where nobody closes it."""
        is_callback = self._thread.is_current or threading.get_ident() == self._closed_by
        if not (is_callback or self._thread.is_forked):
            self.is_over.wait()


class LoopUser:
    """Runs the calls of one client, from `open` to `close`. Several threads may use it."""

    __slots__ = ("_closing", "_name", "thread")

    def __init__(self, name: str) -> None:
        """`name` is the client's class, for errors."""
        self._name = name
        self._closing: Closing | None = None
        self.thread: LoopThread | None = None
        """None before `open`, and as soon as `close` has begun."""

    def open(self, start: Callable[[], Awaitable[object]]) -> None:
        if self.thread is not None:
            raise IllegalState(f"this {self._name} is started already")
        thread = acquire()
        try:
            thread.call(start)
        except BaseException:
            release(thread)
            raise
        self.thread = thread

    def close(
        self,
        close: Callable[[], Awaitable[object]],
        make_call: Callable[[LoopThread], Call[Any]] | None = None,
    ) -> None:
        """Close once. A second call waits for a running one. In a forked child, closing a client of
        the parent does nothing."""
        with _lock:
            thread, self.thread = self.thread, None
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

    def running(self) -> LoopThread:
        if self.thread is None:
            name = self._name
            raise IllegalState(
                f"this {name} is not connected: write `with {name}(...) as ...`, or call start() "
                "first and use it before close()"
            )
        return self.thread

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run asynchronous work, and wait for it."""
        return self.running().call(work)

    def do(self, work: Callable[[], T]) -> T:
        """Run a quick function that must run in the loop's thread."""

        async def run() -> T:
            return work()

        return self.call(run)


def documented_as(twin: type) -> Callable[[C], C]:
    """Copy docstrings from the asynchronous class to methods without one, minus `await`."""

    def document(own: C) -> C:
        for name, method in inspect.getmembers(own, inspect.isfunction):
            text = inspect.getdoc(getattr(twin, name, None))
            if method.__doc__ is None and text and not name.startswith("_"):
                method.__doc__ = text.replace("await ", "").replace("async ", "")
        return own

    return document
