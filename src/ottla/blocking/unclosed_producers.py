"""Flushes producers that a program has not closed when it ends.

This runs at `atexit`: the thread of the event loop is alive then, but no new thread can be started.
So only open connections can be used. Records that need a new one may be lost, which is logged.
"""

from __future__ import annotations

import asyncio
import atexit
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ottla.blocking.loop_user import LoopUser
from ottla.client.producer.sending.losses import records

EXIT_WAIT_MAX_MS = 10_000
"""The longest that the end of a program is delayed, for all its producers together."""
MARGIN_S = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Unclosed:
    """A producer that is open, as far as its end needs to know it."""

    loop: LoopUser
    waiting: Callable[[], int]
    """Returns the number of records without an outcome."""
    leave: Callable[[BaseException, float], Coroutine[Any, Any, None]]
    """Closes because of an error, within so many ms."""


_open: set[Unclosed] = set()


def remember(producer: Unclosed) -> None:
    _open.add(producer)


def forget(producer: Unclosed) -> None:
    _open.discard(producer)


def end_all() -> None:
    deadline = monotonic() + EXIT_WAIT_MAX_MS / 1000 + MARGIN_S
    ending: list[tuple[ResourceWarning, Future[None]]] = []
    for producer in list(_open):
        forget(producer)
        thread = producer.loop.thread
        if thread is None or thread.is_forked or thread.loop.is_closed():
            continue
        warning = ResourceWarning(
            f"a Producer was not closed; {records(producer.waiting())} waiting. "
            "Use `with Producer(...)`, or call close()"
        )
        work = producer.leave(warning, EXIT_WAIT_MAX_MS)
        ending.append((warning, asyncio.run_coroutine_threadsafe(work, thread.loop)))
    for _, future in ending:
        with suppress(Exception, KeyboardInterrupt):
            future.result(max(0.0, deadline - monotonic()))
    for warning, _ in ending:  # last, because warnings may be turned into errors
        notes = getattr(warning, "__notes__", [])
        warnings.warn("; ".join([str(warning), *notes]), ResourceWarning, stacklevel=1)


atexit.register(end_all)
