"""The output of the demo: figures that change in place on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ottla.demo.figures import QUERIES, Figures, QueryFigures
from ottla.demo.verify import Check

LINE_EVERY_S = 5.0


class Screen:
    """Used as a context while the pipeline runs; `say` works before, in and after."""

    def __init__(self, console: Console, figures: Figures) -> None:
        self._console = console
        self._figures = figures
        self._live: Live | None = None
        self._line_at = 0.0
        self._noted = 0

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)

    def show(self, left: str) -> None:
        """Show the present figures; `left` says what is still to come."""
        self._figures.sample()
        for note in self._figures.notes[self._noted :]:
            self.say(note)
        self._noted = len(self._figures.notes)
        if self._live is not None:
            self._live.update(self._picture(left))
        elif time.monotonic() - self._line_at >= LINE_EVERY_S:
            self._line_at = time.monotonic()
            self.say(self._line(left))

    def _line(self, left: str) -> str:
        f = self._figures
        first = f.queries.get("intake")
        return (
            f"{left:>10}: {f.sent:,} sent, {f.per_s:,.0f}/s, {f.lag:,} waiting, "
            f"batch {_seconds(first.ms / 1000 if first else None)}, "
            f"{f.alerts.total():,} alerts, {_seconds(f.latency_s)} each"
        )

    def _picture(self, left: str) -> Group:
        f = self._figures
        head = Text.assemble(
            ("Card payments", "bold"),
            f"  {left}\n  {f.sent:,} sent   ",
            (f"{f.per_s:,.0f} a second", "cyan"),
            f"   {f.lag:,} not processed yet",
        )
        rules = "   ".join(f"{rule} {count:,}" for rule, count in sorted(f.alerts.items()))
        alerts = Text.assemble(
            ("Fraud alerts", "bold"),
            ("  ", ""),
            (rules or "none yet", "red"),
            "   from payment to alert ",
            (_seconds(f.latency_s), "cyan"),
        )
        latest = (Text(f"  {one}", "dim") for one in f.latest)
        return Group(head, Text(), self._queries(), Text(), alerts, *latest)

    def _queries(self) -> Table:
        table = Table(box=None, padding=(0, 2))
        table.add_column("query")
        for head in ("records", "batches", "last batch", "took"):
            table.add_column(head, justify="right")
        found = self._figures.queries
        for name in (*QUERIES, *(one for one in found if one not in QUERIES)):
            one = found.get(name, QueryFigures())
            took = f"{one.ms / 1000:.1f} s" if one.batches else "-"
            table.add_row(name, f"{one.total:,}", f"{one.batches:,}", f"{one.rows:,}", took)
        return table


def show_checks(console: Console, checks: list[Check]) -> None:
    for check in checks:
        mark = "[green]right[/]" if check.good else "[red]WRONG[/]"
        console.print(f"{mark}  {check.claim}: ", end="", highlight=False, soft_wrap=True)
        console.print(check.detail, markup=False, highlight=False, soft_wrap=True)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
