"""Bootstrap texts."""

from __future__ import annotations

import pytest

from ottla.client.errors import BadAddress, show_address
from ottla.client.network.addresses import parse_addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("broker.example", [("broker.example", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("::1", [("::1", 9092)]),
    ],
)
def test_addresses_are_read_as_people_write_them(
    text: str, expected: list[tuple[str, int]]
) -> None:
    assert parse_addresses(text) == expected


@pytest.mark.parametrize("text", ["", " , ", ":9092", "host:port", "host:70000", "[::1", "[::1]x"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadAddress, match="localhost:9092"):
        parse_addresses(text)


def test_an_ipv6_address_is_shown_so_that_it_can_be_read_back() -> None:
    assert parse_addresses(show_address(("::1", 9092))) == [("::1", 9092)]
