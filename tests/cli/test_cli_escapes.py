"""Names and records come from anyone: none of them may do anything to a terminal."""

from __future__ import annotations

import json

import pytest
from cli_tools import Run, call, on_terminal
from confluent_kafka import Consumer, TopicPartition

from ottla.cli.output import safe_json

EVIL = "evil\x1b]0;owned\x07\x1b[31m\x9b2J\u202e\n\rend"
VISIBLE = "evil\\x1b]0;owned\\x07\\x1b[31m\\x9b2J\\u202e\\n\\rend"


@pytest.fixture
def group(bootstrap: str, ottla: Run) -> str:
    ottla("topics", "create", "escapes", "--if-not-exists")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": EVIL})
    consumer.commit(offsets=[TopicPartition("escapes", 0, 0)], asynchronous=False)
    consumer.close()
    return EVIL


def is_harmless(text: str) -> bool:
    return all(one.isprintable() or one in "\n\t" for one in text)


def test_group_ids_are_shown_with_escapes(ottla: Run, group: str) -> None:
    for command in (
        ("groups", "list"),
        ("groups", "list", "--names"),
        ("groups", "describe", group),
        ("groups", "describe", group, "--state"),
        ("groups", "describe", "--all"),
        ("groups", "reset-offsets", group, "--all-topics", "--to-earliest"),
        ("groups", "delete", f"{group}2", "--yes"),
        ("configs", "alter", "--group", group, "--set", "consumer.session.timeout.ms=46000"),
    ):
        shown = ottla(*command)
        assert is_harmless(shown.text), command
        assert is_harmless(shown.err), command
        assert VISIBLE in shown.text + shown.err, command


def test_json_is_exact_and_harmless(ottla: Run, group: str) -> None:
    shown = ottla("groups", "list", "--json")
    assert is_harmless(shown.text)
    assert group in [one["group"] for one in shown.json]


def test_safe_json_means_the_same() -> None:
    text = json.dumps({EVIL: ["\x7f", "ü", "\u2028"]}, ensure_ascii=False)
    assert is_harmless(safe_json(text))
    assert json.loads(safe_json(text)) == json.loads(text)


def test_a_command_line_with_escapes_is_no_way_around_it() -> None:
    shown = call("topics", "describe", EVIL, "--bootstrap", "127.0.0.1:1")
    assert is_harmless(shown.err)


@pytest.mark.parametrize("form", ["value", "key-value", "json", "%o %k %v %h\\n"])
def test_records_are_shown_with_escapes_on_a_terminal_and_as_they_are_in_a_pipe(
    bootstrap: str, ottla: Run, program: Run, form: str
) -> None:
    topic = f"escapes-{abs(hash(form))}"
    where = {"OTTLA_BOOTSTRAP": bootstrap}
    ottla("topics", "create", topic)
    value = "a\tb \x1b[31mred \x9b\xff".encode()
    evil = ("--key", "k\x1b[0m", "-H", "h\x07=\x1b")
    program("produce", topic, "--format", "raw", *evil, stdin=value)
    reading = ("consume", topic, "--exit-at-end", "--format", form)
    code, shown = on_terminal(*reading, environment=where)
    assert code == 0
    assert is_harmless(shown), shown
    assert "red" in shown
    if form != "json":
        assert value in program(*reading).out


def test_a_template_of_ones_own_may_have_colours(bootstrap: str, ottla: Run, program: Run) -> None:
    ottla("topics", "create", "colours")
    program("produce", "colours", stdin=b"x\n")
    reading = ("consume", "colours", "-e", "-f", "\\x1b[31m%v\\x1b[0m\\n")
    _, shown = on_terminal(*reading, environment={"OTTLA_BOOTSTRAP": bootstrap})
    assert shown == "\x1b[31mx\x1b[0m\n"
