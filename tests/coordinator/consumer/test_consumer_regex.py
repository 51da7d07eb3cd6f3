"""Expressions that name topics: RE2's syntax, matched in linear time."""

import re
from contextlib import suppress
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinator.consumer.regex import InvalidRegex, TopicRegex

literals = st.sampled_from(["a", "b", "A", "0", "_", "-", r"\.", ".", "[ab]", "[^a]", r"\w", r"\d"])
places = st.sampled_from(["^", "$", r"\b", r"\B"])
expressions = st.recursive(
    literals | places,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,}"])),
    ),
    max_leaves=8,
)
names = st.text("abAB01_.-", min_size=1, max_size=8)


@given(expression=expressions, name=names)
def test_it_matches_what_pythons_own_engine_matches(expression: str, name: str) -> None:
    expected = re.fullmatch(expression, name, re.ASCII) is not None
    assert TopicRegex(expression).matches(name) == expected


@pytest.mark.parametrize(
    ("expression", "matching", "others"),
    [
        ("^orders-.*", ["orders-", "orders-eu"], ["orders", "my-orders-eu"]),
        ("orders", ["orders"], ["orders-eu"]),
        ("a|bc|d.*", ["a", "bc", "d", "dx"], ["ab", "b"]),
        ("(?i)Orders", ["orders", "ORDERS"], ["order"]),
        ("(?i:a)b", ["Ab", "ab"], ["aB"]),
        ("[[:alpha:]]+", ["abc"], ["a1"]),
        ("[[:^digit:]]", ["a"], ["1"]),
        (r"\pL\p{Nd}\PN", ["a1b"], ["aab"]),
        (r"\Qa.b\E", ["a.b"], ["axb"]),
        (r"\x61\x{62}\143", ["abc"], ["xyz"]),
        ("[]a-]", ["a", "-"], ["b"]),
        ("a{,2}", [], ["aa"]),
        ("", [""], ["a"]),
        ("(?P<year>2[0-9]{3})", ["2024"], ["1999"]),
        ("a*?b+?", ["b", "aab"], ["a"]),
        (r"\Aab\z", ["ab"], ["abc"]),
    ],
)
def test_the_whole_name_has_to_match(
    expression: str, matching: list[str], others: list[str]
) -> None:
    assert TopicRegex(expression).among(matching + others) == set(matching)


@pytest.mark.parametrize(
    "expression",
    [
        *(
            "(",
            ")",
            "a**",
            "a++",
            "*a",
            "{2}",
            r"\C",
            "[a",
            "[b-a]",
            "a{3,2}",
            "a{1001}",
            r"\1",
            r"\Z",
            r"\k",
        ),
        *("(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(?>a)", "a\\", "[[:nothing:]]", r"\p{Nothing}"),
        *("(a{100}){100}{100}", "((a{500}){500})", "(" * 200 + ")" * 200, "a" * 5_000),
    ],
)
def test_what_re2_refuses_or_would_cost_too_much_is_refused(expression: str) -> None:
    with pytest.raises(InvalidRegex):
        TopicRegex(expression)


@pytest.mark.parametrize(
    "expression", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*)(.*)(.*)(.*)x", "(a|b)*a(a|b){300}"]
)
def test_no_expression_can_hold_up_the_broker(expression: str) -> None:
    topics = ["ab" * 100 + str(number) for number in range(500)] + ["a" * 249]
    began = perf_counter()
    with suppress(InvalidRegex):
        TopicRegex(expression).among(topics)
    assert perf_counter() - began < 2


def test_many_topics_are_matched_quickly() -> None:
    topics = [f"team-{number % 50}.orders.{number}" for number in range(20_000)]
    began = perf_counter()
    assert len(TopicRegex(".*").among(topics)) == 20_000
    assert len(TopicRegex(r"team-7\.orders\..*").among(topics)) == 400
    assert perf_counter() - began < 2
