"""The figures of the data source comparison in Spark: a table for people, entries for machines."""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table


class Figure(NamedTuple):
    per_s: float
    """Rows per second; 0 if micro-batches are measured."""
    spark_cpu_us: float
    """CPU time of driver, JVM and Python workers per row."""
    broker_cpu_us: float
    batch_ms: float
    """The median micro-batch."""


class Line(NamedTuple):
    label: str
    unit: str
    """rows/s, or ms."""
    target: float | None = None
    """The target for Ottla in that unit, or as a ratio if `target_is_ratio`."""
    target_is_ratio: bool = False


class SparkTable:
    def __init__(self) -> None:
        self._rounds: dict[tuple[Line, str], list[Figure]] = {}

    def add(self, line: Line, side: str, figure: Figure) -> None:
        self._rounds.setdefault((line, side), []).append(figure)

    def _median(self, line: Line, side: str, field: str) -> float | None:
        figures = self._rounds.get((line, side))
        return statistics.median(getattr(one, field) for one in figures) if figures else None

    def value(self, line: Line, side: str) -> float | None:
        return self._median(line, side, "batch_ms" if line.unit == "ms" else "per_s")

    def ratio(self, line: Line) -> float | None:
        ours, theirs = self.value(line, "ottla"), self.value(line, "kafka")
        return ours / theirs if ours and theirs else None

    def show(self, console: Console) -> None:
        table = Table(title="Spark: our data source and Spark's Kafka connector (medians)")
        table.title_justify = "left"
        table.add_column("measure", no_wrap=True)
        heads = ("ottla", "connector", "ratio", "target", "CPU us/row\nottla", "CPU us/row\nconn.")
        for head in heads:
            table.add_column(head, justify="right", no_wrap=True)
        for line in self._lines():
            table.add_row(line.label, *self._cells(line))
        console.print(table)
        console.print(
            "CPU: of Spark's processes (driver, JVM, Python workers) + of the broker. "
            "Lines without a connector: it has nothing like it."
        )

    def _lines(self) -> list[Line]:
        return list(dict.fromkeys(line for line, _ in self._rounds))

    def _cells(self, line: Line) -> list[str]:
        ratio = self.ratio(line)
        return [
            _number(self.value(line, "ottla"), line.unit),
            _number(self.value(line, "kafka"), line.unit),
            "" if ratio is None else f"{ratio:.2f}",
            self._target_cell(line),
            self._cpu_cell(line, "ottla"),
            self._cpu_cell(line, "kafka"),
        ]

    def _target_cell(self, line: Line) -> str:
        reached = self.ratio(line) if line.target_is_ratio else self.value(line, "ottla")
        if line.target is None or reached is None:
            return ""
        text = f">= {line.target:,g}" + (" x" if line.target_is_ratio else "")
        return f"[{'green' if reached >= line.target else 'red'}]{text}[/]"

    def _cpu_cell(self, line: Line, side: str) -> str:
        spark = self._median(line, side, "spark_cpu_us")
        broker = self._median(line, side, "broker_cpu_us")
        return "" if spark is None or line.unit == "ms" else f"{spark:.2f} + {broker:.2f}"

    def entries(self) -> dict[str, Any]:
        return {"lines": [self._entry(line) for line in self._lines()]}

    def _entry(self, line: Line) -> dict[str, Any]:
        ratio = self.ratio(line)
        sides = {side: self._rounds.get((line, side), []) for side in ("ottla", "kafka")}
        return {
            **line._asdict(),
            "ratio": ratio and round(ratio, 3),
            "rounds": {
                side: [{k: round(v, 3) for k, v in one._asdict().items()} for one in rounds]
                for side, rounds in sides.items()
            },
        }


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:,.0f} {unit}"
