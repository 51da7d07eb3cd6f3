"""Named character classes: \\d, [:alpha:], \\p{Lu} and the like, restricted to the characters of
topic names."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable
from typing import Final

from ottla.broker.coordinator.consumer.regex.nodes import ALPHABET

_DIGITS: Final = frozenset(string.digits)
_LETTERS: Final = frozenset(string.ascii_letters)
_WORD: Final = _DIGITS | _LETTERS | {"_"}
_PUNCTUATION: Final = ALPHABET - _DIGITS - _LETTERS

PERL: Final[dict[str, frozenset[str]]] = {
    "d": _DIGITS,
    "D": ALPHABET - _DIGITS,
    "s": frozenset(),
    "S": ALPHABET,
    "w": _WORD,
    "W": ALPHABET - _WORD,
}

POSIX: Final[dict[str, frozenset[str]]] = {
    "alnum": _DIGITS | _LETTERS,
    "alpha": _LETTERS,
    "ascii": ALPHABET,
    "blank": frozenset(),
    "cntrl": frozenset(),
    "digit": _DIGITS,
    "graph": ALPHABET,
    "lower": frozenset(string.ascii_lowercase),
    "print": ALPHABET,
    "punct": _PUNCTUATION,
    "space": frozenset(),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}

WORD: Final = _WORD

_SCRIPTS: Final[dict[str, frozenset[str]]] = {
    "Any": ALPHABET,
    "Common": _DIGITS | _PUNCTUATION,
    "Latin": _LETTERS,
    **{
        name: frozenset()
        for name in (
            *("Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian"),
            *("Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana", "Khmer", "Lao", "Tamil"),
            *("Telugu", "Thai", "Tibetan"),
        )
    },
}
_CATEGORIES: Final = frozenset(
    {
        *("C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn"),
        *("N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk"),
        *("Sm", "So", "Z", "Zl", "Zp", "Zs"),
    }
)


def unicode_class(name: str) -> frozenset[str] | None:
    """Return a class by general category or script; None if there is no such class."""
    if name in _CATEGORIES:
        return _those(lambda char: unicodedata.category(char).startswith(name))
    return _SCRIPTS.get(name)


def between(first: int, last: int) -> frozenset[str]:
    return _those(lambda char: first <= ord(char) <= last)


def _those(fits: Callable[[str], bool]) -> frozenset[str]:
    return frozenset(char for char in ALPHABET if fits(char))
