"""Limits of values beyond their type. A limit is called with the value and returns what it expected
instead, or None if the value is valid; `str(limit)` describes it in the documentation."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Protocol


class Limit(Protocol):
    def __call__(self, value: Any, /) -> str | None: ...


class Range:
    """A number from `least` to `most`, either of which may be open."""

    __slots__ = ("least", "most")

    def __init__(self, least: float, most: float | None = None) -> None:
        self.least = least
        self.most = most

    def __call__(self, value: Any, /) -> str | None:
        if value < self.least:
            return f"Value must be at least {self.least}"
        if self.most is not None and value > self.most:
            return f"Value must be no more than {self.most}"
        return None

    def __str__(self) -> str:
        return f">= {self.least}" if self.most is None else f"{self.least} to {self.most}"


class OneOf:
    """Allows the given words; case matters unless `ignore_case`."""

    __slots__ = ("ignore_case", "words")

    def __init__(self, *words: str, ignore_case: bool = False) -> None:
        self.words = words
        self.ignore_case = ignore_case

    def __call__(self, value: Any, /) -> str | None:
        known = value in self.words or (self.ignore_case and value.upper() in self.words)
        return None if known else f"Value must be one of: {', '.join(self.words)}"

    def __str__(self) -> str:
        return "one of " + ", ".join(self.words)


class ListOf:
    """A list without blank entries, of the given words if there are any."""

    __slots__ = ("may_be_empty", "words")

    def __init__(self, *words: str, may_be_empty: bool = True) -> None:
        self.words = words
        self.may_be_empty = may_be_empty

    def __call__(self, value: Any, /) -> str | None:
        if not value:
            return None if self.may_be_empty else "List must not be empty"
        if "" in value:
            return "List must not have empty entries"
        if self.words and not set(value) <= set(self.words):
            return f"Values must be among: {', '.join(self.words)}"
        return None

    def __str__(self) -> str:
        if self.words:
            return "list of " + ", ".join(self.words)
        return "list" if self.may_be_empty else "non-empty list"


class Check:
    """Any other rule, as a predicate and its description."""

    __slots__ = ("expected", "holds")

    def __init__(self, holds: Callable[[Any], bool], expected: str) -> None:
        self.holds = holds
        self.expected = expected

    def __call__(self, value: Any, /) -> str | None:
        return None if self.holds(value) else f"Value must be {self.expected}"

    def __str__(self) -> str:
        return self.expected


# Patterns are compiled when first needed, because the broker imports this module at every start.
_REPLICA: Final = r"[0-9]+:[0-9]+"
_ADDRESS: Final = r"(\[[0-9a-zA-Z:.%]+\]|[^\s:@]+):[0-9]+"
_VOTER: Final = r"[0-9]+@" + _ADDRESS


def _all_match(pattern: str) -> Callable[[tuple[str, ...]], bool]:
    return lambda items: all(re.fullmatch(pattern, item) for item in items)


def _is_by_duration(text: str) -> bool:
    from ottla.durations import parse_iso_ms

    name, colon, duration = text.partition(":")
    return bool(colon) and name.lower() == "by_duration" and parse_iso_ms(duration) is not None


_are_replicas: Final = _all_match(_REPLICA)

_NAMED: Final[dict[str, Limit]] = {
    "non-empty": Check(lambda text: text != "", "a non-empty string"),
    "1 to 9 or -1": Check(lambda n: n == -1 or 1 <= n <= 9, "between 1 and 9 or equal to -1"),
    "replicas": Check(
        lambda items: items in ((), ("",), ("*",)) or _are_replicas(items),
        "'*' or a list of partition:broker pairs such as 0:1,1:2",
    ),
    "voters": Check(_all_match(_VOTER), "a list of id@host:port entries"),
    "addresses": Check(_all_match(_ADDRESS), "a list of host:port entries"),
    "offset reset": Check(
        lambda text: text in ("latest", "earliest") or _is_by_duration(text),
        "latest, earliest or by_duration:PnDTnHnMn.nS",
    ),
}


@cache
def parse_limit(text: str) -> Limit:
    """Parse a limit in the words of a declaration, such as `at least 1` or `one of a, b`."""
    if limit := _NAMED.get(text):
        return limit
    if text.startswith("at least "):
        return Range(_number(text.removeprefix("at least ")))
    if " to " in text:
        least, most = text.split(" to ")
        return Range(_number(least), _number(most))
    kind, _, rest = text.partition(" of ")
    words = rest.split(", ") if rest else []
    match kind:
        case "one":
            return OneOf(*words)
        case "any case":
            return OneOf(*words, ignore_case=True)
        case "list":
            return ListOf(*words)
        case "non-empty list":
            return ListOf(*words, may_be_empty=False)
    raise ValueError(f"not a limit: {text!r}")


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)
