"""What users of Kafka's tools type by habit, and the help of every command."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from cli_tools import Run, call, execute

from ottla.cli.kafka_habits import split_pairs, translate
from ottla.cli.root import MODULES, app


def tree(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from tree(command.get_command(context, name), (*path, name))


COMMANDS = dict(tree(typer.main.get_command(app)))


def test_the_tree_is_whole() -> None:
    assert {path[0] for path in COMMANDS if path} == set(MODULES)
    assert ("pipeline", "reprocess", "switch") in COMMANDS


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_option_has_a_help_text(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert (command.help or "").strip(), path
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            assert (parameter.help or "").strip().endswith((".", "...", ")")), parameter.opts


def test_every_command_that_connects_takes_settings_of_the_client() -> None:
    for path, command in COMMANDS.items():
        options = {name for parameter in command.params for name in parameter.opts}
        if "--bootstrap" in options:
            assert {"-X", "--command-config"} <= options, path


def test_help_shows_one_way_to_do_a_thing() -> None:
    """Aliases are not in it."""
    shown = call("consume", "--help").text
    assert "--bootstrap-server" not in shown
    assert "--from-beginning" not in shown


# Against a broker


def test_topics_as_kafka_topics(ottla: Run, bootstrap: str) -> None:
    where = ("--bootstrap-server", bootstrap)
    made = call("topics", *where, "--create", "--topic", "habit", "--partitions", "3")
    assert made.code == 0, made.err
    assert "habit" in call("topics", *where, "--list", "--exclude-internal").text
    described = call("topics", "--describe", "--topic", "habit", *where, "--json")
    assert len(described.json[0]["partitions"]) == 3
    assert call("topics", "--alter", "--topic=habit", "--partitions", "4", *where).code == 0
    assert call("topics", *where, "--delete", "--topic", "habit", "--yes").code == 0


def test_console_tools(program: Run, bootstrap: str, ottla: Run) -> None:
    ottla("topics", "create", "console")
    where = ("--bootstrap-server", bootstrap)
    sent = program("produce", *where, "--topic", "console", "--sync", stdin=b"a\nb\n")
    assert sent.code == 0, sent.err
    shown = program(
        "consume", "--topic", "console", "--from-beginning", "--max-messages", 2, *where
    )
    assert shown.text == "a\nb\n"
    later = program("consume", "--topic", "console", "--offset", 1, "--partition", 0, "-e", *where)
    assert later.text == "b\n"
    kept = program("consume", "--topic", "console", "--isolation-level", "read_committed", "-e")
    assert kept.text == "a\nb\n"


def test_groups_as_kafka_consumer_groups(program: Run, ottla: Run, bootstrap: str) -> None:
    ottla("topics", "create", "grouped")
    program("produce", "grouped", stdin=b"a\n")
    program("consume", "grouped", "--group", "habit-group", "-e")
    assert "habit-group" in ottla("groups", "--list").text
    assert ottla("groups", "--describe", "--group", "habit-group", "--json").json[0]["lag"] == 0
    assert "habit-group" in ottla("groups", "--describe", "--all-groups", "--state").text
    reset = ("--reset-offsets", "--group", "habit-group", "--topic", "grouped", "--to-earliest")
    assert ottla("groups", *reset, "--execute").code == 0
    assert program("consume", "grouped", "--group", "habit-group", "-e").text == "a\n"
    forgotten = ("--delete-offsets", "--group", "habit-group", "--topic", "grouped", "--yes")
    assert ottla("groups", *forgotten).code == 0


def test_configs_as_kafka_configs(ottla: Run) -> None:
    ottla("topics", "create", "configured")
    entity = ("--entity-type", "topics", "--entity-name", "configured")
    change = "retention.ms=1000,cleanup.policy=[compact,delete]"
    assert ottla("configs", "--alter", *entity, "--add-config", change).code == 0
    shown = {
        one["name"]: one["value"] for one in ottla("configs", "--describe", *entity, "--json").json
    }
    assert shown["retention.ms"] == "1000"
    assert shown["cleanup.policy"] == "compact,delete"
    assert ottla("configs", "--alter", *entity, "--delete-config", "retention.ms").code == 0


def test_offsets_as_kafka_get_offsets(ottla: Run, program: Run) -> None:
    ottla("topics", "create", "offset-habit")
    program("produce", "offset-habit", stdin=b"a\n")
    for time, offset in (("-1", 1), ("-2", 0), ("-3", 0)):
        shown = ottla("offsets", "--topic", "offset-habit", "--time", time, "--json")
        assert shown.json[0]["at"] == offset


def test_offsets_of_tiered_records_are_refused(ottla: Run) -> None:
    refused = ottla("offsets", "--topic", "t", "--time", "-5")
    assert refused.code == 2
    assert "nothing is tiered here" in refused.err


def test_kafkas_options_do_not_depend_on_the_name_of_the_program(bootstrap: str) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "offsets", "--time", "-1", "--json"]
    shown = subprocess.run(
        [*command, "--bootstrap-server", bootstrap], capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("consume", "t", "--zookeeper", "x"), "there is no ZooKeeper"),
        (("consume", "t", "--property", "print.key=true"), "--format"),
        (("kafka-console-consumer.sh",), "`ottla consume`"),
        (("consumer-groups", "--list"), "`ottla groups`"),
        (("groups", "--delete", "--all-groups"), "`ottla groups list --names`"),
        (("cluster", "-b", "x", "status"), "write --bootstrap after `ottla cluster status`"),
        (("configs", "--describe", "--entity-type", "users"), "--entity-type users"),
    ],
)  # fmt: skip
def test_what_is_not_there_leads_to_what_is(arguments: tuple[str, ...], hint: str) -> None:
    refused = execute(*arguments)
    assert refused.code == 2
    assert hint in re.sub(r"[\s│]+", " ", refused.err)


# Words to words

FLAGS, VALUED = {"--json"}, {"--from", "--null", "-p"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--topic", "t", "--json"], ["t", "--json"]),
        (["--topic=t"], ["t"]),
        (["--null", "--topic", "x"], ["--null", "--topic", "x"]),
        (["--from=--topic", "x"], ["--from=--topic", "x"]),
        (["--", "--topic"], ["--", "--topic"]),
        (["--from-beginning", "t"], ["--from", "earliest", "t"]),
        (["--bootstrap-server=a:1", "t"], ["--bootstrap", "a:1", "t"]),
        (["--topic"], ["--topic"]),
        (["--group", "g"], ["--group", "g"]),
        (["--unknown", "x"], ["--unknown", "x"]),
    ],
)
def test_words_are_translated_where_the_command_has_not_its_own(
    given: list[str], wanted: list[str]
) -> None:
    assert translate("consume", given, FLAGS, VALUED, "TOPIC") == wanted


def test_commas_in_brackets_belong_to_the_value() -> None:
    assert list(split_pairs("a=1,b=[x,y],c=")) == ["a=1", "b=x,y", "c="]
    assert list(split_pairs("a=[1,2")) == ["a=[1,2"]
