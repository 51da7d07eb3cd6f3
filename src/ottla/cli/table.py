"""Tables that fit the terminal and never break a word that could stay whole.

If all columns fit, a row is a line. On a narrower terminal, in this order: cells are wrapped
between words; spare columns are left out; names that are too long get lines of their own; each row
becomes a block of `name  value` lines. A file or a pipe has no width: rows stay whole there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeVar
from unicodedata import combining, east_asian_width

GAP, GAP_MIN = 3, 2
"""Spaces between columns; the second if space is short."""

TEXT_WIDTH_MIN = 24
"""No column is wrapped to less than this: such a narrow column is no easier to read than blocks."""

T = TypeVar("T")

NAME_WIDTH_MIN = 12
"""Below this width for the names of rows, a table is not used."""

_PIECE = re.compile(r"[^\s,]*,|[^\s,]+|\s+")


class Table(NamedTuple):
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_right: Sequence[bool]
    """Columns of numbers are right-aligned."""

    def without(self, name: str) -> Table:
        at = self.columns.index(name)
        return Table(
            _but(self.columns, at), [_but(row, at) for row in self.rows], _but(self.is_right, at)
        )


def _but(values: Sequence[T], at: int) -> list[T]:
    return [*values[:at], *values[at + 1 :]]


class Layout(NamedTuple):
    lines: list[str]
    left_out: list[str]
    """Columns that did not fit."""


def lay_out(table: Table, width: int | None, spare: Sequence[str] = (), rule: str = "─") -> Layout:
    """Lay out a table; `width` None: of any width. The first of `spare` is dropped first."""
    natural = _natural(table)
    if width is None or _total(natural, GAP) <= width:
        return Layout(list(_lines(table, natural, GAP, rule)), [])
    whole, left_out = table, list[str]()
    rest = [name for name in spare if name in table.columns]
    while True:
        widths = _fitted(table, width)
        if widths is not None:
            return Layout(list(_lines(table, widths, GAP_MIN, rule)), left_out)
        if not rest:
            break
        left_out.append(rest.pop(0))
        table = table.without(left_out[-1])
    widths = _with_long_names(table, width)
    if widths is not None:
        return Layout(list(_lines(table, widths, GAP_MIN, rule)), left_out)
    return Layout(list(_blocks(whole, width)), [])


def _natural(table: Table) -> list[int]:
    return [max(map(cells, column)) for column in zip(table.columns, *table.rows, strict=True)]


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _fitted(table: Table, width: int) -> list[int] | None:
    """Return widths that add up to at most `width` without breaking a word, or None."""
    natural = _natural(table)
    widths = [_least(name, rows) for name, *rows in zip(table.columns, *table.rows, strict=True)]
    left = width - _total(widths, GAP_MIN)
    if left < 0:
        return None
    # Columns that need the least come first, so that most columns get their full width.
    for at in sorted(range(len(widths)), key=lambda at: natural[at] - widths[at]):
        more = min(natural[at] - widths[at], left)
        widths[at] += more
        left -= more
    return widths


def _with_long_names(table: Table, width: int) -> list[int] | None:
    """Return widths if only names in the first column are too long; these get their own lines."""
    names, *others = _natural(table)
    room = width - _total([0, *others], GAP_MIN)
    return [min(names, room), *others] if others and room >= NAME_WIDTH_MIN else None


def _least(name: str, values: Sequence[str]) -> int:
    words = [piece for text in (name, *values) for piece in _PIECE.findall(text)]
    text = min(TEXT_WIDTH_MIN, max(map(cells, values), default=0))
    return max([text if any(map(_has_words, values)) else 0, *map(cells, words)], default=0)


def _has_words(text: str) -> bool:
    return " " in text


def _lines(table: Table, widths: Sequence[int], gap: int, rule: str) -> Iterator[str]:
    yield from _wrapped_row(table.columns, widths, table.is_right, gap)
    yield rule * _total(widths, gap)
    for row in table.rows:
        if max(map(cells, _PIECE.findall(row[0])), default=0) > widths[0]:
            yield row[0]
            row = ("", *row[1:])
        yield from _wrapped_row(row, widths, table.is_right, gap)


def _wrapped_row(
    row: Sequence[str], widths: Sequence[int], is_right: Sequence[bool], gap: int
) -> Iterator[str]:
    cols = [wrap(text, width) for text, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*cols, fillvalue=""):
        padded = [
            _pad(part, width, right)
            for part, width, right in zip(parts, widths, is_right, strict=True)
        ]
        yield (" " * gap).join(padded).rstrip()


def _pad(text: str, width: int, right: bool) -> str:
    blank = " " * (width - cells(text))
    return blank + text if right else text + blank


def _blocks(table: Table, width: int) -> Iterator[str]:
    """Yield each row as lines of name and value, with an empty line between rows."""
    name_width = max(map(cells, table.columns))
    for number, row in enumerate(table.rows):
        if number:
            yield ""
        for name, value in zip(table.columns, row, strict=True):
            yield from hanging(name, value, name_width, width)


def hanging(name: str, value: str, name_width: int, width: int | None) -> Iterator[str]:
    """Yield `name  value`; lines after the first are indented to the value."""
    indent = name_width + 2
    parts = [value] if width is None else wrap(value, max(width - indent, 1))
    for number, part in enumerate(parts):
        yield (_pad(name if not number else "", indent, False) + part).rstrip()


def paragraph(text: str, width: int | None) -> Iterator[str]:
    """Yield the text in lines of at most `width`, indented from the second line on."""
    first, *rest = ([text] if width is None else wrap(text, max(width - 2, 1))) or [""]
    yield first
    yield from (f"  {line}" for line in rest)


def wrap(text: str, width: int) -> list[str]:
    """Split into lines of at most `width`, at spaces and commas; a longer word stays whole."""
    if cells(text) <= width:
        return [text]
    lines, line = [], ""
    for piece in _PIECE.findall(text):
        if line and cells(line) + cells(piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        if line or not piece.isspace():
            line += piece
    return [*lines, line.rstrip()] if line.strip() else lines


def cells(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)
