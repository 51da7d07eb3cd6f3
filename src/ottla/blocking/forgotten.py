"""Producers that a program has not closed: at its end they still send what they have.

This runs when `atexit` does: the thread of the event loop is alive then, but no other thread can be
begun. So open connections are used, and what needs a new one may be lost; the log says so.
"""

from __future__ import annotations

import asyncio
import atexit
import warnings
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from typing import Protocol

from ottla.blocking.loop_thread import LoopThread
from ottla.client.producer.losses import records

EXIT_WAIT_MAX_MS = 10_000
"""How long the end of a program is held up, for all its producers together."""
MARGIN_S = 1.0


class Closable(Protocol):
    @property
    def _thread(self) -> LoopThread | None: ...

    def _waiting(self) -> int:
        """How many records have no outcome yet."""
        ...

    async def _leave(self, error: BaseException, within_ms: float) -> None: ...


_open: set[Closable] = set()


def remember(producer: Closable) -> None:
    _open.add(producer)


def forget(producer: Closable) -> None:
    _open.discard(producer)


def end_all() -> None:
    deadline = monotonic() + EXIT_WAIT_MAX_MS / 1000 + MARGIN_S
    ending: list[tuple[ResourceWarning, Future[None]]] = []
    for producer in list(_open):
        forget(producer)
        thread = producer._thread
        if thread is None or thread.is_forked or thread.loop.is_closed():
            continue
        warning = ResourceWarning(
            f"a Producer was not closed; {records(producer._waiting())} waiting. "
            "Use `with Producer(...)`, or call close()"
        )
        work = producer._leave(warning, EXIT_WAIT_MAX_MS)
        ending.append((warning, asyncio.run_coroutine_threadsafe(work, thread.loop)))
    for _, future in ending:
        with suppress(Exception, KeyboardInterrupt):
            future.result(max(0.0, deadline - monotonic()))
    for warning, _ in ending:  # behind all else: warnings may be made errors
        notes = getattr(warning, "__notes__", [])
        warnings.warn("; ".join([str(warning), *notes]), ResourceWarning, stacklevel=1)


atexit.register(end_all)
