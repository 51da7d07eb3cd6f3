"""Naming places in a partition."""

from __future__ import annotations

import pytest
import typer

from ottla.cli.moments import Moment, parse_moment, parse_partitions

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Moment("earliest")),
        ("Beginning", Moment("earliest")),
        ("latest", Moment("latest")),
        ("end", Moment("latest")),
        ("max-timestamp", Moment("max-timestamp")),
        ("0", Moment("offset", 0)),
        ("123", Moment("offset", 123)),
        ("-10", Moment("tail", 10)),
        ("@1600000000000", Moment("time", 1_600_000_000_000)),
        ("15m", Moment("time", NOW_MS - 900_000)),
        ("250ms", Moment("time", NOW_MS - 250)),
        ("2d", Moment("time", NOW_MS - 172_800_000)),
        ("2023-11-14T22:13:20Z", Moment("time", NOW_MS)),
        ("2023-11-14T23:13:20+01:00", Moment("time", NOW_MS)),
    ],
)
def test_moments_are_read_as_people_write_them(text: str, expected: Moment) -> None:
    assert parse_moment(text, NOW_MS, "--from") == expected


@pytest.mark.parametrize("text", ["yesterday", "15 minutes", "--5", "@x", "", "5y"])
def test_what_is_no_moment_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="earliest, latest"):
        parse_moment(text, NOW_MS, "--from")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [(None, None), (["0"], [0]), (["2,0", "4-6"], [0, 2, 4, 5, 6]), (["1", "1"], [1])],
)
def test_partitions_are_numbers_and_ranges(
    texts: list[str] | None, expected: list[int] | None
) -> None:
    assert parse_partitions(texts) == expected


@pytest.mark.parametrize("text", ["x", "1-", "-1", "1,,2"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no partition"):
        parse_partitions([text])
