"""Places the shapes of a picture in rows, so that arrows point down with few crossings.

A shape's row is one below the lowest shape that leads to it. Within a row shapes are ordered by the
positions of their neighbours, in a few passes down and up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.streams.picture.drawing import Drawing

_SWEEPS = 4


@dataclass(frozen=True)
class Place:
    row: int
    position: float
    """The position of its middle, counted in shapes from the left."""


def places(drawing: Drawing) -> dict[str, Place]:
    rows = _rows(drawing)
    lines: list[list[str]] = [[] for _ in range(max(rows.values(), default=-1) + 1)]
    for shape, row in rows.items():
        lines[row].append(shape)
    lines = _sorted(lines, drawing)
    widest = max((len(line) for line in lines), default=0)
    return {
        shape: Place(row, position + (widest - len(line)) / 2)
        for row, line in enumerate(lines)
        for position, shape in enumerate(line)
    }


def _rows(drawing: Drawing) -> dict[str, int]:
    """Return the row of each shape. A cycle through a topic ends at the number of shapes."""
    rows = dict.fromkeys(drawing.shapes, 0)
    for _ in rows:
        before = dict(rows)
        for start, end in drawing.arrows:
            rows[end] = max(rows[end], min(rows[start] + 1, len(rows)))
        if rows == before:
            return rows
    used = sorted(set(rows.values()))
    return {shape: used.index(row) for shape, row in rows.items()}


def _sorted(lines: list[list[str]], drawing: Drawing) -> list[list[str]]:
    for sweep in range(_SWEEPS):
        for line in lines if sweep % 2 == 0 else reversed(lines):
            at = _positions(lines)
            middles = {shape: _middle(shape, drawing, at) for shape in line}
            line.sort(key=lambda shape: middles[shape])
    return lines


def _positions(lines: Iterable[list[str]]) -> dict[str, float]:
    return {
        shape: (number + 0.5) / len(line) for line in lines for number, shape in enumerate(line)
    }


def _middle(shape: str, drawing: Drawing, at: dict[str, float]) -> float:
    others = [at[start] for start, end in drawing.arrows if end == shape]
    others += [at[end] for start, end in drawing.arrows if start == shape]
    return sum(others) / len(others) if others else at[shape]
