"""Durations as people write and read them: 2h30m, 1 minute, P1DT12H, 5m 12s.

Each reader says which units it takes, because Kafka's and Spark's settings differ; `None` means
that the text is no duration, so that the reader's error can say what was expected where.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_UNIT_MS: Final = {
    "us": 0.001,
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}
SHORT: Final = frozenset({"ms", "s", "m", "h", "d", "w"})
UP_TO_DAYS: Final = frozenset(_UNIT_MS) - {"us", "w", "week", "weeks"}

_PART: Final = re.compile(r"(\d+)(\s*)([a-z]+)(\s*)", re.IGNORECASE)
_ISO: Final = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
_INTERVAL: Final = re.compile(
    r"(\d+(?:\.\d+)?) *((?:millisecond|second|minute|hour|day|week|ms|s|m|h|d)s?)", re.IGNORECASE
)
_LONG_NAMES: Final = {
    "ms": "milliseconds",
    "s": "seconds",
    "m": "minutes",
    "h": "hours",
    "d": "days",
}


def parse_ms(
    text: str, units: Collection[str], *, spaced: bool = True, parts_max: int | None = None
) -> int | None:
    """Return the milliseconds of numbers with units, such as 2h30m and `1 minute 30 s`."""
    total, position, parts = 0.0, 0, 0
    text = text.strip() if spaced else text
    while match := _PART.match(text, position):
        number, gap, unit, behind = match.groups()
        if unit.lower() not in units or (not spaced and (gap or behind)):
            return None
        total += int(number) * _UNIT_MS[unit.lower()]
        position, parts = match.end(), parts + 1
    if not parts or position != len(text) or (parts_max is not None and parts > parts_max):
        return None
    return int(total)


def parse_iso_ms(text: str, *, weeks: bool = False) -> int | None:
    """Return the milliseconds of an ISO 8601 duration, such as P7D and PT12H30M."""
    found = _ISO.fullmatch(text)
    parts = {unit: value for unit, value in found.groupdict().items() if value} if found else {}
    if not parts or ("w" in parts and not weeks):
        return None
    return round(sum(float(value) * _UNIT_MS[unit] for unit, value in parts.items()))


def spark_interval(text: str) -> str | None:
    """Return it in Spark's words: `500 ms` and `5s` become `500 milliseconds` and `5 seconds`."""
    # Not by `parse_ms`: Spark takes fractions here, and counts in the unit that was written.
    found = _INTERVAL.fullmatch(text.strip())
    if found is None:
        return None
    unit = found[2].lower()
    return f"{found[1]} {_LONG_NAMES.get(unit, unit)}"


def in_words(ms: int) -> str:
    """Return the shortest way to write it in one unit; Spark reads it as an interval."""
    for word in ("day", "hour", "minute", "second"):
        unit = int(_UNIT_MS[word])
        if ms and ms % unit == 0:
            count = ms // unit
            return f"{count} {word}{'s' if count != 1 else ''}"
    return f"{ms} milliseconds"


def in_short(ms: int) -> str:
    """Format with at most two units: more would be hard to read."""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = ms // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days}d {hours:02}h"
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {seconds % 60:02}s"
