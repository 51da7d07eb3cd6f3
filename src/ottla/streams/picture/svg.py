"""A picture as SVG, drawn here: no other program is needed.

Each query has a colour, which the legend names. Topics, shared by queries, are grey.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ottla.streams.picture.drawing import INTERNAL, STEP, STORE, TOPIC, Drawing, Shape
from ottla.streams.picture.layout import Place, places

_CHAR, _PAD, _HEIGHT, _ROW, _GAP, _MARGIN, _LINE = 7.0, 14, 34, 74, 22, 20, 22
_COLOURS = ("#cfe2ff", "#d1e7dd", "#ffe5b4", "#f8d7da", "#e2d9f3", "#cff4fc", "#fff3cd", "#dee2e6")
_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1b1f24}"
    ".title{font:600 15px system-ui,sans-serif}"
    ".arrow{fill:none;stroke:#6e7781;stroke-width:1.4;marker-end:url(#tip)}"
)
_TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    ' orient="auto"><path d="M0 0 8 4 0 8z" fill="#6e7781"/></marker>'
)


def svg(drawing: Drawing) -> str:
    found = places(drawing)
    cell = max((_width(shape) for shape in drawing.shapes.values()), default=100) + _GAP
    top = _MARGIN + _LINE * (len(drawing.groups) + 2)
    boxes = {name: _Box(drawing.shapes[name], place, cell, top) for name, place in found.items()}
    width = max((box.x + box.width for box in boxes.values()), default=0) + _MARGIN
    width = max(width, _MARGIN * 2 + _CHAR * 8 + _CHAR * max(map(len, drawing.groups), default=0))
    height = max((box.y + _HEIGHT for box in boxes.values()), default=top) + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>{escape(drawing.title)}</title>",
        f"<defs><style>{_STYLE}</style>{_TIP}</defs>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        *_legend(drawing),
        *(_arrow(boxes[start], boxes[end]) for start, end in drawing.arrows),
        *(box.drawn() for box in boxes.values()),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _width(shape: Shape) -> float:
    return len(shape.label) * _CHAR + 2 * _PAD


class _Box:
    def __init__(self, shape: Shape, place: Place, cell: float, top: float) -> None:
        self.shape = shape
        self.width = _width(shape)
        self.middle = _MARGIN + (place.position + 0.5) * cell
        self.x = self.middle - self.width / 2
        self.y = top + place.row * _ROW

    def drawn(self) -> str:
        text = escape(self.shape.label)
        label = (
            f'<text x="{self.middle:.0f}" y="{self.y + 21:.0f}" text-anchor="middle">{text}</text>'
        )
        return f"<g>{self._outline()}{label}</g>"

    def _outline(self) -> str:
        kind = self.shape.kind
        colour = _colour(self.shape.group)
        radius = {STEP: 6, STORE: 16}.get(kind, 0)
        dash = ' stroke-dasharray="5 3"' if kind == INTERNAL else ""
        edge = "#57606a" if kind in (TOPIC, INTERNAL) else "#8c959f"
        return (
            f'<rect x="{self.x:.0f}" y="{self.y:.0f}" width="{self.width:.0f}" height="{_HEIGHT}"'
            f' rx="{radius}" fill="{colour}" stroke="{edge}"{dash}/>'
        )


def _colour(group: int | None) -> str:
    return "#f6f8fa" if group is None else _COLOURS[group % len(_COLOURS)]


def _legend(drawing: Drawing) -> Iterator[str]:
    yield f'<text class="title" x="{_MARGIN}" y="{_MARGIN + 6}">{escape(drawing.title)}</text>'
    for number, name in enumerate(drawing.groups):
        y = _MARGIN + _LINE * (number + 1)
        yield (
            f'<rect x="{_MARGIN}" y="{y - 6}" width="14" height="14" rx="3"'
            f' fill="{_colour(number)}" stroke="#8c959f"/>'
            f'<text x="{_MARGIN + 22}" y="{y + 5}">query {escape(name)}</text>'
        )


def _arrow(start: _Box, end: _Box) -> str:
    x1, y1, x2, y2 = start.middle, start.y + _HEIGHT, end.middle, end.y
    if y2 < y1:  # back up, for a cycle: around the side
        return (
            f'<path class="arrow" d="M{x1:.0f} {y1:.0f} C{x1 + 160:.0f} {y1 + 60:.0f}'
            f' {x2 + 160:.0f} {y2 - 60:.0f} {x2:.0f} {y2:.0f}"/>'
        )
    bend = (y2 - y1) / 2
    return (
        f'<path class="arrow" d="M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f}'
        f' {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"/>'
    )
