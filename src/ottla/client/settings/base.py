"""From the options a caller names to complete, checked settings."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from ottla.client.errors import BadSetting

S = TypeVar("S")

INT32_MAX = (1 << 31) - 1


def settings_from(kind: type[S], options: Mapping[str, Any]) -> S:
    """An instance of the dataclass `kind`; unknown names and values out of range are named."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            raise BadSetting(name, _unknown(name, known))
    return kind(**options)


def with_underscores(config: Mapping[str, Any]) -> dict[str, Any]:
    """Kafka's own spelling as keyword arguments: {"linger.ms": 5} is linger_ms=5."""
    return {name.replace(".", "_"): value for name, value in config.items()}


def _unknown(name: str, known: set[str]) -> str:
    if "." in name and name.replace(".", "_") in known:
        return f"write {name.replace('.', '_')}"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"there is no such setting{hint}"


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
        listed = ", ".join(str(choice) for choice in choices)
        raise BadSetting(name, f"{value!r} is none of: {listed}")
