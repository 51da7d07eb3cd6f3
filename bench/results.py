"""Readings of several rounds, as a table for people and a file for machines."""

from __future__ import annotations

import json
import platform
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent / "results"
OTTLA, KAFKA, BEFORE = "Ottla", "Kafka", "before"
PEERS = {KAFKA: "Apache Kafka", BEFORE: "the Ottla of another checkout"}


class Reading(NamedTuple):
    label: str
    value: float
    unit: str
    less_is_better: bool = True
    target: float | None = None
    """The target for Ottla: a maximum, or a minimum if more is better."""


class Section(Protocol):
    """Figures that do not compare two brokers and have their own table."""

    def show(self, console: Console) -> None: ...

    def entries(self) -> dict[str, Any]: ...


class Results:
    """Every reading of every round, by label and broker."""

    def __init__(self, *, quick: bool, peer: str = KAFKA) -> None:
        self.quick = quick
        self._peer = peer
        self._shape: dict[str, Reading] = {}
        self._values: dict[tuple[str, str], list[float]] = {}
        self._sections: dict[str, Section] = {}

    def attach(self, name: str, section: Section) -> None:
        self._sections[name] = section

    def add(self, side: str, readings: list[Reading]) -> None:
        for reading in readings:
            self._shape.setdefault(reading.label, reading)
            self._values.setdefault((reading.label, side), []).append(reading.value)

    def median(self, label: str, side: str) -> float | None:
        values = self._values.get((label, side))
        return statistics.median(values) if values else None

    def ratio(self, label: str) -> float | None:
        ours, theirs = self.median(label, OTTLA), self.median(label, self._peer)
        return ours / theirs if ours is not None and theirs else None

    def show(self, console: Console) -> None:
        for section in self._sections.values():
            section.show(console)
        if self._shape:
            self._show_brokers(console)

    def _show_brokers(self, console: Console) -> None:
        table = Table(title=f"Ottla beside {PEERS[self._peer]} (medians)", title_justify="left")
        table.add_column("measure", no_wrap=True)
        for head in (OTTLA, self._peer, f"Ottla/{self._peer}", "target"):
            table.add_column(head, justify="right")
        for label, shape in self._shape.items():
            table.add_row(label, *self._cells(label, shape))
        console.print(table)
        console.print("[green]green[/]: Ottla is ahead, or meets its target; [red]red[/]: not.")

    def _cells(self, label: str, shape: Reading) -> list[str]:
        ours, theirs, ratio = (
            self.median(label, OTTLA),
            self.median(label, self._peer),
            self.ratio(label),
        )
        cells = [_number(ours, shape.unit), _number(theirs, shape.unit), "-", ""]
        if ratio is not None:
            ahead = ratio <= 1 if shape.less_is_better else ratio >= 1
            cells[2] = f"[{'green' if ahead else 'red'}]{ratio:.2f}[/]"
        if shape.target is not None and ours is not None:
            met = ours <= shape.target if shape.less_is_better else ours >= shape.target
            sign = "<=" if shape.less_is_better else ">="
            cells[3] = f"[{'green' if met else 'red'}]{sign} {shape.target:g}[/]"
        return cells

    def save(self, facts: dict[str, Any]) -> Path:
        FOLDER.mkdir(exist_ok=True)
        now = datetime.now(UTC)
        path = FOLDER / f"{now:%Y-%m-%d-%H%M%S}.json"
        document = {
            "date": now.isoformat(timespec="seconds"),
            "quick": self.quick,
            "machine": {"cores": facts.pop("cores"), "python": platform.python_version()},
            **facts,
            "measures": [self._entry(label, shape) for label, shape in self._shape.items()],
            **{name: section.entries() for name, section in self._sections.items()},
        }
        path.write_text(json.dumps(document, indent=1) + "\n")
        return path

    def _entry(self, label: str, shape: Reading) -> dict[str, Any]:
        sides = {side: self._values.get((label, side), []) for side in (OTTLA, self._peer)}
        return {
            "measure": label,
            "unit": shape.unit,
            "less_is_better": shape.less_is_better,
            "target": shape.target,
            "ratio": self.ratio(label),
            "rounds": {side: [round(value, 6) for value in rows] for side, rows in sides.items()},
        }


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}"
