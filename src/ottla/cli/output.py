"""What commands print: tables for people, JSON for scripts, one line for a deed done."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

PLAIN_WIDTH = 10_000
"""Columns when the output is not a terminal: rows stay whole for grep, awk and files."""


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def print_json_line(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Something to know that is not part of the answer: never mixed into a pipe."""
    print(text, file=sys.stderr, flush=True)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None
) -> None:
    """A table; columns that hold only numbers are set to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    values = [list(row) for row in rows]
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False
    )
    for index, name in enumerate(columns):
        numeric = any(_is_number(row[index]) for row in values)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in values:
        table.add_row(*(Text(_cell(value)) for value in row))
    _console().print(table)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Name and value pairs, one a line."""
    pairs = [(name, _cell(value)) for name, value in fields]
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        print_line(f"{name:<{width}}  {value}")


def _console() -> Any:
    from rich.console import Console

    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def human_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def deed(as_json: bool, value: Any, text: str) -> None:
    """Report something done: the JSON value, or one sentence."""
    if as_json:
        print_json(value)
    else:
        print_line(text)
