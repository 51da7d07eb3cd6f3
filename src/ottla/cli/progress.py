"""A progress bar on stderr for long work; silent if stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ottla.runtime.clock import SystemClock

REDRAW_S = 0.1


class Advance(Protocol):
    def __call__(self, count: int, /) -> None: ...


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Advance]:
    """Yield a function to call with the amount of further progress."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, rate="")
        clock = SystemClock()
        waiting, shown_at = 0, clock.now()

        def advance(count: int) -> None:
            nonlocal waiting, shown_at
            waiting += count
            # Drawing costs more than the counted work, so it is not done for each of thousands a
            # second.
            if (now := clock.now()) - shown_at >= REDRAW_S:
                speed = bar.tasks[0].speed
                bar.update(task, advance=waiting, rate=f"{speed:,.0f}/s" if speed else "")
                waiting, shown_at = 0, now

        yield advance
