"""Checks schemas in Spark's DDL without Spark: `account string, tags array<string>`.

Spark starts in seconds and names neither file nor line; here a typing error is found at once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import TypeAlias

Shape: TypeAlias = "dict[str, Shape] | None"
"""The fields of a row, by name; None for everything else."""

TYPES = {
    *("boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint"),
    *("float", "real", "double", "decimal", "dec", "numeric", "date", "timestamp"),
    *("timestamp_ntz", "timestamp_ltz", "time", "string", "binary", "variant"),
}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[\w.]+|\S)")
_NAME = re.compile(r"`.+`|[^\W\d]\w*", re.DOTALL)


class InvalidSchema(ValueError):
    """The message says what is wrong and where."""


def parse_schema(text: str) -> dict[str, Shape]:
    """Return the columns, or raise InvalidSchema."""
    found = _Parser(text).fields(end=None)
    lowered = [name.lower() for name, _ in found]
    if twice := next((name for name in lowered if lowered.count(name) > 1), None):
        raise InvalidSchema(f"column {twice!r} is there twice")
    return dict(found)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def fields(self, end: str | None) -> list[tuple[str, Shape]]:
        names = [self._field()]
        while self._peek() == ",":
            self._next()
            names.append(self._field())
        if self._peek() != end:
            expected = "a comma" if end is None else f"a comma or {end!r}"
            raise InvalidSchema(f"{expected} is missing before {self._peek()!r}")
        return names

    def _field(self) -> tuple[str, Shape]:
        name = self._next()
        if name is None or not _NAME.fullmatch(name):
            raise InvalidSchema(f"wants `name type, name type...`, and {name!r} is no name")
        if self._peek() == ":":
            self._next()
        shape = self._type(name)
        if (self._peek() or "").lower() == "not":
            self._at += 2
        if (self._peek() or "").lower() == "comment":
            raise InvalidSchema("comments have no place in it")
        return name.strip("`"), shape

    def _type(self, column: str) -> Shape:
        name = (self._next() or "").lower()
        match name:
            case "array":
                self._within("<", ">", lambda: self._type(column))
            case "map":
                self._within("<", ">", lambda: self._pair(column))
            case "struct":
                self._take("<")
                found = self.fields(end=">")
                self._take(">")
                return dict(found)
            case "decimal" | "dec" | "numeric" if self._peek() == "(":
                self._within("(", ")", self._numbers)
            case _ if name not in TYPES:
                raise InvalidSchema(f"column {column!r}: {self._unknown(name)}")
        return None

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

    def _within(self, opening: str, closing: str, inner: Callable[[], object]) -> None:
        self._take(opening)
        inner()
        self._take(closing)

    def _take(self, wanted: str) -> None:
        if (found := self._next()) != wanted:
            raise InvalidSchema(f"wants {wanted!r} and finds {found or 'its end'!r}")

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> str | None:
        found = self._peek()
        self._at += 1
        return found
