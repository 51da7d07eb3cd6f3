"""A progress bar on stderr while something long runs; silent where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    def __call__(self, count: int, /) -> None: ...


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Advance]:
    """Call what it yields with how much more is done."""
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

        def advance(count: int) -> None:
            shown = bar.tasks[0]
            rate = f"{shown.speed:,.0f}/s" if shown.speed else ""
            bar.update(task, advance=count, rate=rate)

        yield advance
