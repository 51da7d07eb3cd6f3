"""Lengths of time as people write them: `"1 minute"`, `"500 ms"`, a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta

from ottla.streams.errors import BadTopology

Duration = str | timedelta

_UNITS_MS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_PART = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.IGNORECASE)


def milliseconds(duration: Duration, what: str) -> int:
    """`what` is named if the duration makes no sense."""
    if isinstance(duration, timedelta):
        return _not_negative(round(duration.total_seconds() * 1000), duration, what)
    if not isinstance(duration, str):
        raise BadTopology(f"{what} is {duration!r}: write it like '1 minute', or as a timedelta")
    total, position = 0, 0
    while match := _PART.match(duration, position):
        unit = _UNITS_MS.get(match[2].lower())
        if unit is None:
            break
        total, position = total + int(match[1]) * unit, match.end()
    if position != len(duration) or not duration:
        raise BadTopology(f"{what} is {duration!r}: write it like '1 minute' or '500 ms'")
    return total


def _not_negative(ms: int, duration: Duration, what: str) -> int:
    if ms < 0:
        raise BadTopology(f"{what} is {duration}: time runs forward only")
    return ms


def in_words(ms: int) -> str:
    """The shortest way to write it; Spark reads it as an interval."""
    for word, unit in (
        ("day", 86_400_000),
        ("hour", 3_600_000),
        ("minute", 60_000),
        ("second", 1000),
    ):
        if ms and ms % unit == 0:
            count = ms // unit
            return f"{count} {word}{'s' if count != 1 else ''}"
    return f"{ms} milliseconds"
