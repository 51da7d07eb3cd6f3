"""Schemas as Spark's DDL writes them, checked without Spark: `account string, tags array<string>`.

Spark starts in seconds and names neither file nor line; a slip of the pen is found here at once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

TYPES = {
    *("boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint"),
    *("float", "real", "double", "decimal", "dec", "numeric", "date", "timestamp"),
    *("timestamp_ntz", "timestamp_ltz", "time", "string", "binary", "variant"),
}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[\w.]+|\S)")
_NAME = re.compile(r"`.+`|[^\W\d]\w*", re.DOTALL)


class InvalidSchema(ValueError):
    """Says what is wrong and where."""


def check_schema(text: str) -> list[str]:
    """The names of the columns, or InvalidSchema."""
    parser = _Parser(text)
    names = parser.fields(end=None)
    lowered = [name.lower() for name in names]
    if twice := next((name for name in lowered if lowered.count(name) > 1), None):
        raise InvalidSchema(f"column {twice!r} is there twice")
    return names


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def fields(self, end: str | None) -> list[str]:
        names = [self._field()]
        while self._peek() == ",":
            self._next()
            names.append(self._field())
        if self._peek() != end:
            expected = "a comma" if end is None else f"a comma or {end!r}"
            raise InvalidSchema(f"{expected} is missing before {self._peek()!r}")
        return names

    def _field(self) -> str:
        name = self._next()
        if name is None or not _NAME.fullmatch(name):
            raise InvalidSchema(f"wants `name type, name type...`, and {name!r} is no name")
        if self._peek() == ":":
            self._next()
        self._type(name)
        if (self._peek() or "").lower() == "not":
            self._at += 2
        if (self._peek() or "").lower() == "comment":
            raise InvalidSchema("comments have no place in it")
        return name.strip("`")

    def _type(self, column: str) -> None:
        name = (self._next() or "").lower()
        match name:
            case "array":
                self._within("<", ">", lambda: self._type(column))
            case "map":
                self._within("<", ">", lambda: self._pair(column))
            case "struct":
                self._within("<", None, lambda: self.fields(end=">"))
            case "decimal" | "dec" | "numeric" if self._peek() == "(":
                self._within("(", ")", self._numbers)
            case _ if name not in TYPES:
                raise InvalidSchema(f"column {column!r}: {self._unknown(name)}")

    def _unknown(self, name: str) -> str:
        if not name:
            return "its type is missing"
        close = difflib.get_close_matches(name, TYPES, n=1)
        known = f"is {close[0]} meant?" if close else "there are int, long, double, string, ..."
        return f"{name!r} is no type; {known}"

    def _pair(self, column: str) -> None:
        self._type(column)
        self._take(",")
        self._type(column)

    def _numbers(self) -> None:
        while self._peek() not in (")", None):
            self._next()

    def _within(self, opening: str, closing: str | None, inner: Callable[[], object]) -> None:
        self._take(opening)
        inner()
        self._take(closing or ">")

    def _take(self, wanted: str) -> None:
        if (found := self._next()) != wanted:
            raise InvalidSchema(f"wants {wanted!r} and finds {found or 'its end'!r}")

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> str | None:
        found = self._peek()
        self._at += 1
        return found
