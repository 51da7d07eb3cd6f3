"""Durations that a topology is given: `"1 minute"`, `"500 ms"`, a timedelta."""

from __future__ import annotations

from datetime import timedelta

from ottla.durations import UP_TO_DAYS, parse_ms
from ottla.streams.errors import BadTopology

Duration = str | timedelta


def milliseconds(duration: Duration, what: str) -> int:
    """Return the duration in ms; `what` names it in the error if it is invalid."""
    if isinstance(duration, timedelta):
        ms = round(duration.total_seconds() * 1000)
        if ms < 0:
            raise BadTopology(f"{what} is {duration}: time runs forward only")
        return ms
    if not isinstance(duration, str):
        raise BadTopology(f"{what} is {duration!r}: write it like '1 minute', or as a timedelta")
    found = parse_ms(duration, UP_TO_DAYS)
    if found is None:
        raise BadTopology(f"{what} is {duration!r}: write it like '1 minute' or '500 ms'")
    return found
