"""The output of commands: tables for people, JSON for scripts, one line for an action.

Names come from anyone who may write to the cluster. Characters that could move a terminal's cursor
or begin a new line are shown as an escape such as `\\x1b`; in JSON, as `\\u001b`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from shutil import get_terminal_size
from typing import Any

from ottla.logs import visible

_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that JSON allows in a string and a terminal obeys."""


def print_json(value: Any) -> None:
    sys.stdout.write(safe_json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def print_json_line(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.write(safe_json(text) + "\n")


def safe_json(text: str) -> str:
    """Return the same JSON, with escapes for the control characters that JSON leaves as they
    are."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_line(text: str) -> None:
    sys.stdout.write(visible(text, keep="\t") + "\n")
    sys.stdout.flush()


def print_exactly(text: str) -> None:
    """Print whole lines, unchanged for a file or pipe; a terminal gets escapes."""
    sys.stdout.write(visible(text, keep="\n\t") if sys.stdout.isatty() else text)
    sys.stdout.flush()


def print_sentence(text: str) -> None:
    """Print a sentence, wrapped at the width of a terminal and indented from the second line on."""
    from ottla.cli.table import paragraph

    for line in paragraph(visible(text), width_of_stdout()):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Print a note to stderr: it is not part of the answer and must not get into a pipe."""
    from ottla.cli.table import paragraph

    width = get_terminal_size().columns if sys.stderr.isatty() else None
    for line in visible(text, keep="\t\n").split("\n"):
        for part in paragraph(line, width):
            print(part, file=sys.stderr, flush=True)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, spare: Sequence[str] = ()
) -> None:
    """Print a table; columns that hold only numbers are right-aligned. On a terminal that is too
    narrow, columns in `spare` are left out, the first one first."""
    from ottla.cli.table import Table, lay_out

    values = [list(row) for row in rows]
    is_right = [any(_is_number(row[at]) for row in values) for at in range(len(columns))]
    table = Table(columns, [[_cell(value) for value in row] for row in values], is_right)
    layout = lay_out(table, width_of_stdout(), spare, "─" if _shows_unicode() else "-")
    for line in layout.lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
    if layout.left_out:
        print_note(
            f"(No room for: {', '.join(layout.left_out)}. A wider terminal or --json shows it.)"
        )


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print name and value pairs, one per line."""
    from ottla.cli.table import hanging

    pairs = [(name, _cell(value)) for name, value in fields]
    name_width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        for line in hanging(name, value, name_width, width_of_stdout()):
            sys.stdout.write(line + "\n")
    sys.stdout.flush()


def width_of_stdout() -> int | None:
    """Return the terminal's width; None without a terminal: rows stay whole for grep and awk."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def _shows_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return visible(",".join(str(item) for item in value))
    return visible(str(value))


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
    """Report an action: the JSON value, or one sentence."""
    if as_json:
        print_json(value)
    else:
        print_sentence(text)
