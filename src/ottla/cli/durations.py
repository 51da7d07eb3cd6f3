"""Options that are lengths of time, and times."""

from __future__ import annotations

from datetime import datetime

import typer

from ottla.durations import SHORT, parse_iso_ms, parse_ms

HELP = "2h30m, 7d, 90s, or ISO 8601: P1DT12H, PT15M"


def parse_duration_ms(text: str, option: str) -> int:
    text = text.strip()
    found = parse_ms(text, SHORT, spaced=False)
    if found is None:
        found = parse_iso_ms(text, weeks=True)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no length of time; write {HELP}", param_hint=option)
    return found


def parse_datetime_ms(text: str, option: str) -> int:
    """Parse a time. Without a zone it is in the machine's time zone, as in all these commands."""
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
