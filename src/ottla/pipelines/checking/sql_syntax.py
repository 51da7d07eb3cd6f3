"""Mistakes in the syntax of Spark's SQL that are certain without its parser.

Pure, and no parser: quotes, comments and brackets that do not match, an operator without its right
side, and nothing at all. Spark takes keywords as names, so it reads `amount > 3 AND` as
`amount > 3` with the name `AND`: a keyword at the end is a mistake only where a result has no name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_TOKENS: Final = re.compile(
    r"""
    (?P<skip>\s+|--(?:\\\n|[^\n])*)
  | (?P<comment>/\*)
  | (?P<value>
        [rR]'[^']*'|[rR]"[^"]*"
      | '(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"
      | `(?:[^`]|``)*`
      | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*
    )
  | (?P<word>\w+)
  | (?P<sign><=>|->|=>|::|\|\||[<>!=]=|<>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARKS: Final = re.compile(r"/\*|\*/")
_QUOTES: Final = frozenset("'\"`")
_CLOSING: Final = {")": "(", "]": "["}
_BINARY: Final = frozenset(
    {"=", "==", "<>", "!=", "<", ">", "<=", ">=", "<=>", "+", "-", "/", "%", "&", "|", "^", "||"}
    | {"->", "=>", "::", ".", ",", "~", "!"}
)
"""Signs that need something to their right."""
_OPERATOR_WORDS: Final = frozenset(
    {"and", "or", "not", "in", "is", "like", "ilike", "rlike", "regexp", "between", "div"}
)
_CLAUSES: Final = frozenset(
    {"select", "from", "where", "group", "having", "order", "sort", "cluster", "distribute"}
    | {"limit", "offset", "window", "join", "on", "union", "except", "minus", "intersect"}
)


class Mistake(NamedTuple):
    problem: str
    at: int
    """Where it is in the text, in characters."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def find_mistake(text: str, *, has_name: bool = True) -> Mistake | None:
    """Return the first certain mistake of an expression or a query. `has_name`: the text may name
    its result, as `amount * 2 AS double` does; Spark takes other expressions too, but ignores it.
    """
    if "${" in text:
        return None  # Spark replaces variables before it parses
    levels: list[list[_Token]] = [[]]
    """The tokens of each bracket that is open; the first is that of the text itself."""
    opened: list[_Token] = []
    for token in _tokens(text):
        if token.kind == "comment":
            return Mistake("the comment that begins with /* has no end", token.at)
        if token.text in _QUOTES:
            return Mistake(f"the quote {token.text} is not closed", token.at)
        if token.text in _CLOSING:
            if not opened or opened[-1].text != _CLOSING[token.text]:
                return Mistake(f"there is no {_CLOSING[token.text]} for {token.text}", token.at)
            if inner := _dangling(levels.pop()):
                return inner
            opened.pop()
        levels[-1].append(token)
        if token.text in ("(", "["):
            opened.append(token)
            levels.append([])
    if opened:
        return Mistake(f"{opened[-1].text} is not closed", opened[-1].at)
    (tokens,) = levels
    if not tokens:
        return Mistake("there is no expression", 0)
    return _dangling(tokens) or _dangling_word(tokens, has_name)


def _tokens(text: str) -> Iterator[_Token]:
    """Yield tokens without blanks and comments; a comment only if it has no end."""
    at = 0
    while found := _TOKENS.match(text, at):
        kind = str(found.lastgroup)
        end: int | None = found.end()
        if kind == "comment":
            end = _end_of_comment(text, at)
        if end is None or kind in ("value", "word", "sign"):
            yield _Token(kind, found.group(), at)
        at = len(text) if end is None else end


def _end_of_comment(text: str, at: int) -> int | None:
    """Return where the comment ends that begins at `at`; None: nowhere. Comments are nested."""
    depth = 0
    for mark in _COMMENT_MARKS.finditer(text, at):
        depth += 1 if mark.group() == "/*" else -1
        if not depth:
            return mark.end()
    return None


def _dangling(tokens: list[_Token]) -> Mistake | None:
    """Return a sign at the end that needs something to its right."""
    if not tokens or tokens[-1].kind != "sign":
        return None
    last, before = tokens[-1], tokens[-2] if len(tokens) > 1 else None
    if last.text == "*":
        # All columns, unless it stands behind a value: `select *`, `a.*`, `count(*)`.
        dangles = before is not None and _ends_value(before)
    elif last.text == ">":
        # It may be the end of a type: `a::array<int>`.
        dangles = all(one.text != "<" for one in tokens)
    elif last.text == "<>":
        dangles = before is None or before.text.lower() != "struct"
    else:
        dangles = last.text in _BINARY
    return _nothing_right_of(last) if dangles else None


def _dangling_word(tokens: list[_Token], has_name: bool) -> Mistake | None:
    last = tokens[-1]
    if len(tokens) < 2 or last.kind != "word" or last.text.lower() not in _OPERATOR_WORDS:
        return None
    clauses = [one.text.lower() for one in tokens if one.kind == "word"]
    clauses = [one for one in clauses if one in _CLAUSES]
    if has_name and (not clauses or clauses[-1] != "where"):
        return None
    before = tokens[-2]
    # Two operators in a row are none for sure: the second may be a column.
    is_value = _ends_value(before) and before.text.lower() not in {*_OPERATOR_WORDS, "as", "where"}
    return _nothing_right_of(last) if is_value else None


def _ends_value(token: _Token) -> bool:
    if token.kind == "sign":
        return token.text in _CLOSING
    return token.text.lower() not in ("select", "distinct", "all")


def _nothing_right_of(token: _Token) -> Mistake:
    return Mistake(f"{token.text} has nothing to its right", token.at)
