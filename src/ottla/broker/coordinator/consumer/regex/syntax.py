"""Parses an expression into a tree; refuses everything that RE2 refuses."""

from __future__ import annotations

import re
from typing import Final

from ottla.broker.coordinator.consumer.regex.classes import PERL, POSIX, between, unicode_class
from ottla.broker.coordinator.consumer.regex.nodes import (
    ALPHABET,
    EMPTY,
    Chars,
    Choice,
    Node,
    Place,
    Repeat,
    Sequence,
    size_of,
)

LENGTH_MAX: Final = 4_096
SIZE_MAX: Final = 10_000
DEPTH_MAX: Final = 100
REPEAT_MAX: Final = 1_000

_COUNTS: Final = re.compile(r"\{(\d{1,4})(,(\d{1,4})?)?\}")
_GROUP: Final = re.compile(r"\?(?:P?<(\w+)>|([imsU]*)(?:-([imsU]+))?([:)]))")
_HEX: Final = re.compile(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_OCTAL: Final = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_PROPERTY: Final = re.compile(r"[pP](?:\{(\^?)(\w+)\}|(\w))")
_POSIX: Final = re.compile(r"\[:(\^?)(\w+):\]")
_CONTROLS: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_PLACES: Final = {"A": "start", "z": "end", "b": "word", "B": "nonword"}


class InvalidRegex(ValueError):
    """The message says what is wrong, and where."""


def parse(text: str) -> Node:
    if len(text) > LENGTH_MAX:
        raise InvalidRegex(f"it has {len(text)} characters, of {LENGTH_MAX} that it may have")
    node = _Parser(text).whole()
    if size_of(node) > SIZE_MAX:
        raise InvalidRegex("its repetitions multiply to more than can be matched")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.ignores_case = False

    # --- structure ------------------------------------------------------------------------------

    def whole(self) -> Node:
        node = self._choice()
        if self.at < len(self.text):
            raise self._wrong("a ) without its (")
        return node

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self._take("\\Q"):
                parts += self._quoted()
                continue
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _quoted(self) -> list[Node]:
        end = self.text.find("\\E", self.at)
        quoted = self.text[self.at : end if end >= 0 else len(self.text)]
        self.at = end + 2 if end >= 0 else len(self.text)
        return [self._one(char) for char in quoted]

    def _repeated(self) -> Node:
        node = self._atom()
        counts = self._counts()
        if counts is None:
            return node
        if node is EMPTY:
            raise self._wrong("a repetition of flags")
        node = Repeat(node, *counts)
        self._take("?")  # greedy or not makes no difference: the whole name must match
        if self._counts() is not None:
            raise self._wrong("a repetition of a repetition")
        return node

    def _counts(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        found = _COUNTS.match(self.text, self.at)
        if found is None:
            return None
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        if max(least, most or 0) > REPEAT_MAX or (most is not None and most < least):
            raise self._wrong(f"a repetition that is not within 0 and {REPEAT_MAX}")
        self.at = found.end()
        return least, most

    def _atom(self) -> Node:
        if self._counts() is not None:
            raise self._wrong("a repetition of nothing")
        char = self.text[self.at]
        self.at += 1
        match char:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return Chars(ALPHABET)
            case "^":
                return Place("start")
            case "$":
                return Place("end")
            case "\\":
                return self._escape()
        return self._one(char)

    def _group(self) -> Node:
        ignored_case = self.ignores_case
        if self.text.startswith("?", self.at):
            found = _GROUP.match(self.text, self.at)
            if found is None:
                raise self._wrong("a group of a kind that RE2 does not have")
            self.at = found.end()
            self.ignores_case |= "i" in (found[2] or "")
            self.ignores_case &= "i" not in (found[3] or "")
            if found[4] == ")":  # flags for the rest of the enclosing group
                return EMPTY
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self._wrong(f"more than {DEPTH_MAX} groups inside each other")
        node = self._choice()
        self.depth -= 1
        if not self._take(")"):
            raise self._wrong("a ( without its )")
        self.ignores_case = ignored_case
        return node

    # --- characters -----------------------------------------------------------------------------

    def _one(self, char: str) -> Chars:
        return Chars(self._cased(frozenset({char})))

    def _cased(self, chars: frozenset[str]) -> frozenset[str]:
        if self.ignores_case:
            chars |= {char.swapcase() for char in chars}
        return chars & ALPHABET

    def _escape(self) -> Node:
        kind = self.text[self.at : self.at + 1]
        if kind in _PLACES:
            self.at += 1
            return Place(_PLACES[kind])
        named = self._named_class()
        if named is not None:
            return Chars(self._cased(named))
        return self._one(chr(self._escaped_character()))

    def _named_class(self) -> frozenset[str] | None:
        """Parse a class after a backslash, like \\d or \\p{L}; None if there is none."""
        kind = self.text[self.at : self.at + 1]
        if kind in PERL:
            self.at += 1
            return PERL[kind]
        found = _PROPERTY.match(self.text, self.at)
        if found is None:
            return None
        chars = unicode_class(found[2] or found[3])
        if chars is None:
            raise self._wrong("an unknown Unicode class")
        self.at = found.end()
        return chars if (kind == "p") != bool(found[1]) else ALPHABET - chars

    def _escaped_character(self) -> int:
        if found := _HEX.match(self.text, self.at):
            code = int(found[1] or found[2], 16)
            if code > 0x10FFFF:
                raise self._wrong("a character beyond Unicode")
        elif found := _OCTAL.match(self.text, self.at):
            code = int(found[0], 8)
        else:
            char = self.text[self.at : self.at + 1]
            if char in _CONTROLS:
                code = _CONTROLS[char]
            elif char and not char.isalnum() and char.isascii():
                code = ord(char)
            else:
                raise self._wrong("an escape that RE2 does not have")
            self.at += 1
            return code
        self.at = found.end()
        return code

    def _class(self) -> Chars:
        negated = self._take("^")
        chars: frozenset[str] = frozenset()
        first = True
        while first or not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                raise self._wrong("a [ without its ]")
            chars |= self._class_item()
            first = False
        self.at += 1
        chars = self._cased(chars)
        return Chars(ALPHABET - chars if negated else chars)

    def _class_item(self) -> frozenset[str]:
        found = _POSIX.match(self.text, self.at)
        if found is not None:
            named = POSIX.get(found[2])
            if named is None:
                raise self._wrong("an unknown class of characters")
            self.at = found.end()
            return ALPHABET - named if found[1] else named
        if self._take("\\"):
            escaped = self._named_class()
            if escaped is not None:
                return escaped
            low = self._escaped_character()
        else:
            low = ord(self.text[self.at])
            self.at += 1
        return between(low, self._range_end(low))

    def _range_end(self, low: int) -> int:
        if self.text[self.at : self.at + 1] != "-" or self.text[self.at + 1 : self.at + 2] in "]":
            return low
        self.at += 1
        if self._take("\\"):
            high = self._escaped_character()
        else:
            high = ord(self.text[self.at])
            self.at += 1
        if high < low:
            raise self._wrong("a range that ends before it begins")
        return high

    def _take(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def _wrong(self, what: str) -> InvalidRegex:
        return InvalidRegex(f"{what}, at character {min(self.at, len(self.text))}")
