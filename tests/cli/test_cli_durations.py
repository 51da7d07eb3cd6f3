"""Lengths of time as commands read and write them."""

from __future__ import annotations

import pytest
import typer

from ottla.cli.durations import parse_duration_ms
from ottla.durations import in_short


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("90s", 90_000),
        ("2h30m", 9_000_000),
        ("1w2d", 777_600_000),
        ("250ms", 250),
        ("1m5ms", 60_005),
        ("PT15M", 900_000),
        ("P1DT12H", 129_600_000),
        ("p1dt2h3m4.5s", 93_784_500),
        ("P2W", 1_209_600_000),
    ],
)
def test_both_forms_are_understood(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text, "--for") == expected_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "5", "h", "-2h", "2h 30m", "1.5h", "P1Y"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="2h30m"):
        parse_duration_ms(text, "--for")


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (3_240, "3.2 s"),
        (312_000, "5m 12s"),
        (7_380_000, "2h 03m"),
        (352_800_000, "4d 02h"),
    ],
)
def test_people_read_two_units_at_most(duration_ms: int, expected: str) -> None:
    assert in_short(duration_ms) == expected
