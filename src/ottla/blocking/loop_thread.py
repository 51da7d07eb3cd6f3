"""One event loop in its own thread, shared by all blocking clients of this process.

It starts with the first client and ends when the last one is closed. A child process made by `fork`
does not have this thread: clients that were created before the fork raise there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ottla.blocking.call import Call
from ottla.client.errors import IllegalState
from ottla.runtime.os_runtime import new_event_loop

T = TypeVar("T")


class LoopThread:
    """Use `acquire` and `release`: all clients share one."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self.users = 0
        self.is_forked = False
        # A daemon, so that a program can end even if it forgets to close its clients.
        self._thread = threading.Thread(target=self._run, name="ottla-blocking", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """True in a callback, which runs in this thread and must not wait for it."""
        return threading.get_ident() == self._thread.ident

    def call(self, work: Callable[[], Awaitable[T]], call: Call[T] | None = None) -> T:
        """Run `work` in the loop, and return its result."""
        self.check()
        if self.is_current:
            raise IllegalState(
                "a callback runs in the thread of the event loop and would wait for itself here; "
                "only send() may be called, or hand the work over to a thread of yours"
            )
        call = call or Call(self.loop)
        self.loop.call_soon_threadsafe(call.begin, work)
        return call.wait()

    def post(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a function in the loop soon, without waiting."""
        self.check()
        self.loop.call_soon_threadsafe(callback, *arguments)

    def check(self) -> None:
        if self.is_forked:
            raise IllegalState(
                "this client was made before a fork, and its connections belong to the parent "
                "process; make a new client in the child"
            )

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.is_current:
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            # Cancel calls that other threads still wait for, so that these return.
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            # At interpreter exit no thread can be started to wait for the executor (from Python
            # 3.12 on), and its threads have already ended.
            with contextlib.suppress(RuntimeError):
                self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


_shared: LoopThread | None = None
_lock = threading.Lock()


def acquire() -> LoopThread:
    global _shared
    with _lock:
        if _shared is None:
            _shared = LoopThread()
        _shared.users += 1
        return _shared


def release(thread: LoopThread) -> None:
    global _shared
    with _lock:
        thread.users -= 1
        is_last = thread.users == 0
        if is_last and _shared is thread:
            _shared = None
    if is_last and not thread.is_forked:
        thread.stop()


def _forget_in_child() -> None:
    global _shared, _lock
    if _shared is not None:
        _shared.is_forked = True
    _shared = None
    _lock = threading.Lock()  # a thread that does not exist here may have held the old one


os.register_at_fork(after_in_child=_forget_in_child)
