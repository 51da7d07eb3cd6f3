"""Durations as Spark's options have them: 15m, 10s, 500ms; a bare number is milliseconds."""

from __future__ import annotations

import re

_UNITS_MS = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")


def duration_ms(name: str, text: str) -> int:
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS_MS:
        units = ", ".join(unit for unit in _UNITS_MS if unit)
        raise ValueError(f"{name} must be a number and a unit ({units}) such as 15m, got {text!r}")
    return int(int(match[1]) * _UNITS_MS[match[2]])
