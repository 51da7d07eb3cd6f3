"""Tables that fit, and never break a word that could stay whole."""

from __future__ import annotations

import json

import pytest
from cli_tools import Run, execute, on_terminal
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.table import GAP, Table, cells, lay_out, wrap

MEMBER = "billing-0-bd93c3f0-aaaa-bbbb-cccc-0123456789ab"
GROUP = Table(
    ("topic", "partition", "committed", "end", "lag", "lag time", "member", "client", "host"),
    [
        ("orders", str(n), "40", "100", "60", "58m 14s", MEMBER, "billing-0", "10.0.0.7")
        for n in (0, 1)
    ],
    [False, True, True, True, True, False, False, False, False],
)
SPARE = ("member", "host", "client")
TROUBLE = "topic 'orders' does not exist: create it, or check its name"
PIPELINES = Table(
    ("pipeline", "state", "rows in", "rows/s", "lag", "error"),
    [
        ("payments", "running", "12000", "1500", "-", "-"),
        ("fraud-alerts", "failed", "12000", "1500", "30", TROUBLE),
    ],
    [False, False, True, True, True, False],
)


def test_without_a_width_rows_are_whole() -> None:
    lines, left_out = lay_out(GROUP, None, SPARE)
    assert left_out == []
    assert len(lines) == 4
    assert all(MEMBER in line for line in lines[2:])
    assert lines[0].startswith("topic" + " " * (GAP + 1) + "partition")


def test_columns_that_can_be_spared_go_first() -> None:
    lines, left_out = lay_out(GROUP, 80, SPARE)
    assert left_out == ["member"]
    assert max(map(cells, lines)) <= 80
    assert lines[2].split() == [
        "orders",
        "0",
        "40",
        "100",
        "60",
        "58m",
        "14s",
        "billing-0",
        "10.0.0.7",
    ]


def test_sentences_are_wrapped_between_words() -> None:
    lines, left_out = lay_out(PIPELINES, 80, ())
    assert left_out == []
    assert max(map(cells, lines)) <= 80
    shown = " ".join(" ".join(line[line.find("topic") :].split()) for line in lines[3:])
    assert "failed" in lines[3]
    assert "topic 'orders' does not exist:" in shown


def test_a_name_that_is_too_long_gets_a_line_of_its_own() -> None:
    name = "a-name-" * 12
    table = Table(("topic", "partitions"), [("orders", "6"), (name, "3")], [False, True])
    lines, left_out = lay_out(table, 80)
    assert left_out == []
    assert lines[2].split() == ["orders", "6"]
    assert lines[3:] == [name, " " * (80 - 1) + "3"]


def test_what_fits_in_no_row_becomes_a_block_with_all_its_columns() -> None:
    lines, left_out = lay_out(GROUP, 62, ())
    assert left_out == []
    assert lines[:3] == ["topic      orders", "partition  0", "committed  40"]
    assert f"member     {MEMBER}" in lines
    assert lines.count("") == 1


def test_an_empty_table_shows_its_columns() -> None:
    assert lay_out(Table(("a", "b"), [], [False, False]), 80).lines == ["a   b", "─────"]


words = st.text(st.sampled_from("abcdefgh-,. "), min_size=1, max_size=40)


@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=5), st.integers(10, 120))
def test_no_word_is_broken_at_any_width(rows: list[tuple[str, str, str]], width: int) -> None:
    table = Table(("first", "second one", "third"), rows, [False, True, False])
    lines, left_out = lay_out(table, width, ("third",))
    shown = " ".join(lines).split()
    kept = [0, 1] if left_out else [0, 1, 2]
    for row in rows:
        for at in kept:
            for word in row[at].replace(",", ", ").split():
                assert any(word in piece for piece in shown), (word, lines)


@given(words, st.integers(1, 60))
def test_wrapped_text_is_the_same_text(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_wide_characters_take_two_places() -> None:
    assert cells("日本") == 4
    table = Table(("a", "b"), [("日本", "x"), ("ab", "y")], [False, False])
    assert [line[-1] for line in lay_out(table, 80).lines[2:]] == ["x", "y"]
    assert lay_out(table, 80).lines[2:] == ["日本   x", "ab     y"]


@pytest.mark.parametrize("columns", [80, 60])
def test_commands_fit_their_terminal(ottla: Run, bootstrap: str, columns: int) -> None:
    topic = f"a-topic-with-a-name-of-some-length-{columns}"
    group = f"group-of-{columns}"
    where = {"OTTLA_BOOTSTRAP": bootstrap}
    assert ottla("topics", "create", topic, "-p", 2).code == 0
    execute("produce", topic, stdin=b"a\nb\n", environment=where)
    assert execute("consume", topic, "--group", group, "-e", environment=where).code == 0
    for command in (
        ("groups", "describe", group),
        ("groups", "list"),
        ("groups", "describe", group, "--state"),
        ("topics", "describe", topic),
        ("topics", "list"),
        ("configs", "describe", "--topic", topic, "--all", "--docs"),
        ("cluster", "status"),
        ("quorum", "describe"),
        ("log-dirs", "--topic", topic),
        ("offsets", topic),
    ):
        code, shown = on_terminal(*command, columns=columns, environment=where)
        assert code == 0, shown
        # Other tests may have left a topic with a name that no table of this width has room for.
        longest = max(map(len, shown.split()), default=0)
        for line in shown.splitlines():
            assert cells(line) <= columns or longest > columns - 15, (command, line)
        if topic in json.dumps(command):
            assert topic in shown or command[0] == "configs"
