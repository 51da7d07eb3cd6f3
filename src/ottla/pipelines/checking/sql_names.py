"""Names in Spark's SQL: those that are no column, and the columns that a query returns.

Pure, and no SQL parser: a name is reported only where it can be nothing but a column.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.pipelines.declared.schemas import Shape

Columns = dict[str, Shape]
Views = Mapping[str, "Columns | None"]
"""None: only Spark knows the columns of the view."""

_TOKENS = re.compile(
    r"""
    (?P<skip>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<text>[rRxX]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)+`)
  | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[A-Za-z]{0,2}\b|\.\d+)
  | (?P<word>[^\W\d]\w*)
  | (?P<sign>->|=>|::|\|\||[<>!=]=|<=>|<>|.)
    """,
    re.VERBOSE | re.DOTALL,
)

# Words that are not columns in a query, unless there is a column of that name.
_WORDS = {
    *("all", "and", "anti", "any", "array", "as", "asc", "at", "between", "both", "by", "case"),
    *("cast", "collate", "cross", "cube", "current", "current_catalog", "current_database"),
    *("current_date", "current_schema", "current_time", "current_timestamp", "current_user"),
    *("day", "dayofyear", "days", "desc", "distinct", "div", "else", "end", "escape", "except"),
    *("exclude", "exists", "extract", "false", "filter", "first", "following", "for", "from"),
    *("full", "group", "grouping", "having", "hour", "hours", "if", "ignore", "ilike", "in"),
    *("inner", "intersect", "interval", "into", "is", "join", "last", "lateral", "leading"),
    *(
        "left",
        "like",
        "limit",
        "localtime",
        "localtimestamp",
        "placing",
        "microsecond",
        "microseconds",
        "millisecond",
    ),
    *("milliseconds", "minus", "minute", "minutes", "month", "months", "nanosecond"),
    *("nanoseconds", "natural", "next", "no", "not", "null", "nulls", "of", "offset", "on"),
    *("only", "or", "order", "outer", "over", "overlaps", "partition", "percent", "preceding"),
    *("quarter", "range", "regexp", "respect", "right", "rlike", "rollup", "row", "rows"),
    *("second", "seconds", "select", "semi", "session_user", "set", "sets", "some", "sort"),
    *("table", "then", "time", "timestamp", "timestamp_ltz", "timestamp_ntz", "to", "trailing"),
    *("true", "unbounded", "union", "unknown", "using", "user", "values", "week", "weeks"),
    *("when", "where", "window", "with", "within", "year", "years", "zone", "date", "bigint"),
    *("binary", "boolean", "byte", "char", "decimal", "dec", "double", "float", "int"),
    *("integer", "long", "map", "numeric", "real", "short", "smallint", "string", "struct"),
    *("tinyint", "variant", "varchar", "void"),
}
# Queries with these words introduce names in ways that are not followed here.
_TOO_MUCH = {"lateral", "pivot", "unpivot", "unnest", "recursive", "values"}
# The first argument of these is a part of a date: `extract(dow from at)`, `dateadd(day, 1, at)`.
_OF_DATES = {"extract", "timestampadd", "timestampdiff", "dateadd", "datediff", "date_add"}
_OF_DATES |= {"date_diff", "timediff"}
_ENDS_VALUE = {"end", "null", "true", "false"}


class Token(NamedTuple):
    kind: str
    text: str

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted")

    @property
    def name(self) -> str:
        return self.text.strip("`").lower()

    @property
    def is_keyword(self) -> bool:
        return self.kind == "word" and self.name in _WORDS


_NONE = Token("none", "")


class Unknown(NamedTuple):
    """A name that is no column, and the columns that exist."""

    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        close = difflib.get_close_matches(self.name.lower(), [one.lower() for one in self.known], 1)
        meant = next((one for one in self.known if close and one.lower() == close[0]), None)
        hint = f"; is {meant} meant?" if meant else ""
        return f"there is no column {self.name!r}; there are: {', '.join(self.known)}{hint}"


def tokens_of(text: str) -> list[Token]:
    found = (Token(str(one.lastgroup), one.group()) for one in _TOKENS.finditer(text))
    return [one for one in found if one.kind != "skip"]


def find_unknown(text: str, columns: Columns, views: Views) -> Unknown | None:
    """Return the first name that is unknown."""
    return _Query(tokens_of(text), columns, views).unknown()


def selected(text: str, views: Views) -> dict[str, Shape] | None:
    """Return the columns that a query returns, perhaps with some more; None if unknown."""
    tokens = tokens_of(text)
    words = [one.name for one in tokens if one.kind == "word"]
    if not tokens or tokens[0].name != "select" or _TOO_MUCH & set(words):
        return None
    start = 2 if len(tokens) > 1 and tokens[1].name in ("distinct", "all") else 1
    items = _items(tokens, start)
    sources = _tables(tokens)
    known = {name.lower(): shape for name, shape in views.items()}
    every: dict[str, Shape] = {}
    for name in sources:
        columns = known.get(name)
        if columns is None:
            return None
        every.update(columns)
    found: dict[str, Shape] = {}
    for item in items:
        if item and item[-1].text == "*":
            found.update(every)
        elif item:
            found.update(_named(item, every))
    return found


def select_columns(texts: list[str], columns: Columns) -> dict[str, Shape]:
    """Return the columns that a list of expressions returns."""
    found: dict[str, Shape] = {}
    for text in texts:
        item = tokens_of(text)
        found.update(columns if item and item[-1].text == "*" else _named(item, columns))
    return found


def _named(item: list[Token], columns: Columns) -> dict[str, Shape]:
    """Return the column with its alias or last name; else its text, where Spark makes a name."""
    last, before = item[-1], item[-2] if len(item) > 1 else _NONE
    is_alias = before.text == "." or before.name == "as"
    if not last.is_name or (last.is_keyword and before is not _NONE and not is_alias):
        return {"".join(one.text for one in item): None}
    plain = {name.lower(): shape for name, shape in columns.items()}
    shape = plain.get(last.name) if len(item) == 1 else None
    return {last.text.strip("`"): shape}


def _items(tokens: list[Token], start: int) -> list[list[Token]]:
    """Return the items between SELECT and FROM, split at commas."""
    items: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[start:]:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.kind == "word" and token.name in ("from", "union", "where"):
            break
        if depth == 0 and token.text == ",":
            items.append([])
        else:
            items[-1].append(token)
    return items


def _tables(tokens: list[Token]) -> list[str]:
    """Return names after FROM and JOIN, and after commas between them, at any depth."""
    found: list[str] = []
    expecting = in_from = False
    depth = from_depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if token.kind == "word" and token.name in ("from", "join"):
            expecting, in_from, from_depth = True, True, depth
        elif expecting and token.is_name:
            found.append(token.name)
            expecting = False
        elif token.text == "(":
            expecting = False
        elif token.text == "," and in_from and depth == from_depth:
            expecting = True
        elif token.kind == "word" and token.name in ("where", "group", "order", "having", "limit"):
            in_from = expecting = False
    return found


@dataclass
class _Query:
    tokens: list[Token]
    columns: Columns
    views: Views

    def unknown(self) -> Unknown | None:
        if _TOO_MUCH & {one.name for one in self.tokens if one.kind == "word"}:
            return None
        defined = self._defined()
        known = {name.lower(): shape for name, shape in self.columns.items()}
        views = {name.lower(): shape for name, shape in self.views.items()}
        for index, token in enumerate(self.tokens):
            if not self._is_column(index) or token.name in defined:
                continue
            if token.name in known:
                problem = self._field(index, known[token.name])
            elif token.is_keyword:
                problem = None
            elif token.name in views:
                columns = views[token.name]
                problem = None if columns is None else self._field(index, columns)
            else:
                problem = Unknown(token.text.strip("`"), tuple(self.columns))
            if problem is not None:
                return problem
        return None

    def _at(self, index: int) -> Token:
        return self.tokens[index] if 0 <= index < len(self.tokens) else _NONE

    def _is_column(self, index: int) -> bool:
        """True if the name can only be a column, or a row that a field belongs to."""
        token, before, after = self._at(index), self._at(index - 1), self._at(index + 1)
        if not token.is_name or after.text in ("(", "->", "=>"):
            return False
        if before.text in (".", "::", ":", "@", "$") or index in self._types():
            return False
        if token.kind == "quoted" and not re.fullmatch(r"\w+", token.name):
            return False  # such as `sum(amount)`, a name that Spark generates
        if before.text == "(" and self._at(index - 2).name in _OF_DATES and after.text != ".":
            return False
        return before.name not in ("as", "from", "join", "table", "collate")

    def _field(self, index: int, shape: Shape) -> Unknown | None:
        """Follow `row.field.field` as far as the fields are known."""
        while shape is not None and self._at(index + 1).text == ".":
            field = self._at(index + 2)
            if not field.is_name:
                return None
            known = {name.lower(): one for name, one in shape.items()}
            if field.name not in known:
                return Unknown(field.text.strip("`"), tuple(shape))
            shape, index = known[field.name], index + 2
        return None

    def _types(self) -> set[int]:
        """Return the positions inside the angle brackets of `array<struct<a: int>>`."""
        found: set[int] = set()
        depth = 0
        for index, token in enumerate(self.tokens):
            is_type = self._at(index - 1).name in ("array", "map", "struct")
            if token.text == "<" and (depth or is_type):
                depth += 1
            elif token.text == ">" and depth:
                depth -= 1
            if depth:
                found.add(index)
        return found

    def _defined(self) -> set[str]:
        """Return aliases, names of subqueries, and lambda variables, whatever their scope."""
        found: set[str] = set()
        for index, token in enumerate(self.tokens):
            before, after = self._at(index - 1), self._at(index + 1)
            if token.text == "->" and before.text == ")":
                found |= self._parameters(index - 1)
            if token.text == "(" and self._names_columns(index):
                found |= self._inside(index)
            if not token.is_name:
                continue
            follows_value = (
                (before.is_name and not before.is_keyword)
                or before.kind in ("text", "number")
                or before.text in (")", "]")
                or (before.kind == "word" and before.name in _ENDS_VALUE)
            )
            is_alias = (before.kind == "word" and before.name == "as") or after.text == "->"
            is_query = after.name == "as" and self._at(index + 2).text == "("
            if is_alias or is_query or (follows_value and not token.is_keyword):
                found.add(token.name)
            if before.kind == "word" and before.name in ("from", "join"):
                found |= {token.name} - set(self.views)
        return found

    def _names_columns(self, opening: int) -> bool:
        """True for `inline(x) as (a, b)` and `from x as t (a, b)`."""
        before, first = self._at(opening - 1), self._at(opening - 2)
        return before.name == "as" or (before.is_name and first.name == "as")

    def _inside(self, opening: int) -> set[str]:
        found: set[str] = set()
        for token in self.tokens[opening + 1 :]:
            if token.text == ")":
                break
            found |= {token.name} if token.is_name else set()
        return found

    def _parameters(self, closing: int) -> set[str]:
        found: set[str] = set()
        while self._at(closing).text not in ("(", ""):
            closing -= 1
            if self._at(closing).is_name:
                found.add(self._at(closing).name)
        return found
