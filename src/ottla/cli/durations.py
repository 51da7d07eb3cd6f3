"""Lengths of time as people write and read them: 2h30m, P1DT12H, 5m 12s."""

from __future__ import annotations

import re
from datetime import datetime

import typer

HELP = "2h30m, 7d, 90s, or ISO 8601: P1DT12H, PT15M"

_UNIT_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_SHORT = re.compile(r"(?:\d+(?:ms|[wdhms]))+")
_SHORT_PART = re.compile(r"(\d+)(ms|[wdhms])")
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


def parse_duration_ms(text: str, option: str) -> int:
    text = text.strip()
    if _SHORT.fullmatch(text.lower()):
        parts = _SHORT_PART.findall(text.lower())
        return sum(int(number) * _UNIT_MS[unit] for number, unit in parts)
    found = _ISO.fullmatch(text)
    if found and any(found.groupdict().values()):
        parts = [(number, unit) for unit, number in found.groupdict().items() if number]
        return round(sum(float(number) * _UNIT_MS[unit] for number, unit in parts))
    raise typer.BadParameter(f"{text!r} is no length of time; write {HELP}", param_hint=option)


def parse_datetime_ms(text: str, option: str) -> int:
    """In the machine's time zone unless the text names one, as everywhere in these commands."""
    text = text.strip()
    if text[:1] == "@" and text[1:].isdigit():
        return int(text[1:])
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time; write 2026-01-31T12:00:00, with +01:00 or Z behind it for "
            "another zone than this machine's, or @MS since the epoch",
            param_hint=option,
        ) from None


def human_duration(duration_ms: int) -> str:
    """Two units at most: more is not read by anybody."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.1f} s"
    seconds = duration_ms // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days}d {hours:02}h"
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {seconds % 60:02}s"
