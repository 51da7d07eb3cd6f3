"""Turns a caller's options into complete, checked settings."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from ottla.client.errors import BadSetting

S = TypeVar("S")

INT32_MAX = (1 << 31) - 1


def settings_from(kind: type[S], options: Mapping[str, Any]) -> S:
    """Return an instance of the dataclass `kind`; unknown names and invalid values raise.

    As in Kafka, numbers and booleans may be strings: they often come from a file or the
    environment.
    """
    declared = {field.name: str(field.type) for field in fields(kind)}  # type: ignore[arg-type]
    for name in options:
        if name not in declared:
            raise BadSetting(name, _unknown(name, set(declared)))
    return kind(**{name: read(name, declared[name], value) for name, value in options.items()})


def with_underscores(config: Mapping[str, Any]) -> dict[str, Any]:
    """Turn Kafka's own names into keyword arguments: {"linger.ms": 5} is linger_ms=5."""
    return {name.replace(".", "_"): value for name, value in config.items()}


def _unknown(name: str, known: set[str]) -> str:
    if "." in name and name.replace(".", "_") in known:
        return f"write {name.replace('.', '_')}"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"there is no such setting{hint}"


def read(name: str, declared: str, value: Any) -> Any:
    """Convert a value to its declared type; other than plain types are checked elsewhere."""
    kinds = {kind.strip() for kind in declared.split("|")}
    if value is None and "None" not in kinds and kinds & _PLAIN.keys():
        raise BadSetting(name, "it cannot be None; leave it out for the default")
    if value is None or not kinds <= {*_PLAIN, "None"}:
        return value
    (kind,) = kinds - {"None"}
    return _PLAIN[kind](name, value)


def _truth(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    if text not in ("true", "false"):
        raise BadSetting(name, f"{value!r} is neither True nor False")
    return text == "true"


def _whole(name: str, value: object) -> int:
    number = _number(name, value)
    if number != int(number):
        raise BadSetting(name, f"{value!r} is not a whole number")
    return int(number)


def _number(name: str, value: object) -> float:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                raise BadSetting(name, f"{value!r} is not a number") from None
    check_number(name, value)
    assert isinstance(value, (int, float))
    if value != value or value in (float("inf"), float("-inf")):
        raise BadSetting(name, f"{value!r} is not a number to work with")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadSetting(name, f"{value!r} is {type(value).__name__}; it must be str")
    return value


_PLAIN: dict[str, Callable[[str, object], object]] = {
    "bool": _truth,
    "int": _whole,
    "float": _number,
    "str": _text,
}


def check_all(name: str, values: object, methods: tuple[str, ...]) -> None:
    """Check a list of objects, each of which must have at least one of the methods."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise BadSetting(name, f"{values!r} is not a list")
    for value in values:
        check_methods(name, value, methods)


def check_methods(name: str, value: object, methods: tuple[str, ...]) -> None:
    if isinstance(value, (str, bytes)) or not any(hasattr(value, method) for method in methods):
        listed = " or ".join(f"{method}()" for method in methods)
        raise BadSetting(name, f"{value!r} has no {listed}")


def check_number(
    name: str, value: object, *, low: float | None = None, high: float | None = None
) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadSetting(name, f"{value!r} is not a number")
    if low is not None and value < low:
        raise BadSetting(name, f"{value} is below the least allowed, {low}")
    if high is not None and value > high:
        raise BadSetting(name, f"{value} is above the most allowed, {high}")


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        listed = ", ".join(dict.fromkeys(str(choice) for choice in choices))
        raise BadSetting(name, f"{value!r} is none of: {listed}")
