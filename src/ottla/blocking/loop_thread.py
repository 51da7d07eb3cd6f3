"""One event loop in a thread of its own, shared by all blocking clients of this process.

It begins with the first client that is started and ends with the last one that is closed. A child
process made by `fork` has no such thread: clients from before say so there.
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
    """Use `acquire` and `release`: there is one for all."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self.users = 0
        self.is_forked = False
        # A daemon: a program that forgets to close its clients is not kept from ending.
        self._thread = threading.Thread(target=self._run, name="ottla-blocking", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller is a callback, which runs in this thread and must not wait for it."""
        return threading.get_ident() == self._thread.ident

    def call(self, work: Callable[[], Awaitable[T]], call: Call[T] | None = None) -> T:
        """Run `work` in the loop, and wait for what comes of it."""
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
        """Run a function in the loop soon, and wait for nothing."""
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
            # A call that another thread still waits for is told that it is over.
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            # While the interpreter ends, there is no thread to wait in for the others (from Python
            # 3.12 on), and they have ended already.
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
    _lock = threading.Lock()  # somebody may have held the old one, who is not there any more


os.register_at_fork(after_in_child=_forget_in_child)
