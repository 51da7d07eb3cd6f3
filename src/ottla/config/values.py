"""Kafka's nine configuration types: text to value and back.

The rules are those of Kafka's parser, not Python's: surrounding blanks are ignored, `1_000` is not
a number, `yes` is not a boolean, an int has 32 bits.
"""

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

# Compiled when first needed, because the broker imports this module at every start.
_DOUBLE: Final = r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?"


class ConfigType(IntEnum):
    """A key's type, with its number in a DescribeConfigs response."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class IllTyped(ValueError):
    """The text is not a value of the type; the message says what was expected."""


def _boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise IllTyped("expected true or false")


def _integer(bits: int, name: str) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        digits = text[1:] if text[:1] in ("+", "-") else text
        if digits.isascii() and digits.isdigit() and -limit <= (number := int(text)) < limit:
            return number
        raise IllTyped(f"expected a whole number of type {name} ({bits} bits)")

    return parse


def _double(text: str) -> float:
    if not re.fullmatch(_DOUBLE, text):
        raise IllTyped("expected a number of type double")
    return float(text.rstrip("fFdD"))


def _list(text: str) -> tuple[str, ...]:
    # A value given twice counts once, as in Kafka.
    return tuple(dict.fromkeys(map(str.strip, text.split(",")))) if text else ()


_PARSERS: Final[dict[ConfigType, Callable[[str], Any]]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _integer(32, "int"),
    ConfigType.SHORT: _integer(16, "short"),
    ConfigType.LONG: _integer(64, "long"),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}


def parse_value(kind: ConfigType, text: str) -> Any:
    """Return the typed value of `text`; raises `IllTyped`."""
    return _PARSERS[kind](text.strip())


def value_text(value: Any) -> str | None:
    """Return the value as Kafka's tools show it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return _double_text(value)
    return str(value)


def _double_text(value: float) -> str:
    """Java prints `1.7976931348623157E308` where Python prints `1.79...e+308`."""
    return repr(value).replace("e+", "E").replace("e", "E")
