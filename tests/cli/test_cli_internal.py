"""What the platform keeps for itself is not in lists, unless asked for."""

from __future__ import annotations

import pytest
from cli_tools import Run
from confluent_kafka import Consumer, TopicPartition

from ottla.cli.names import is_internal


@pytest.mark.parametrize(
    ("name", "internal"),
    [
        ("__consumer_offsets", True),
        ("__ottla_sink_decisions", True),
        ("ottla-sink-payments", True),
        ("app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog", True),
        ("app-KTABLE-TOTABLE-0000000012-repartition", True),
        ("db-changelog", False),
        ("app-totals-changelog", False),
        ("_schemas", False),
        ("orders", False),
    ],
)
def test_internal_names(name: str, internal: bool) -> None:
    assert is_internal(name) == internal


def test_internal_topics_are_hidden_unless_asked_for(ottla: Run) -> None:
    names = ("inner-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog", "__inner")
    assert ottla("topics", "create", *names, "inner-own").code == 0
    for command in (("topics", "list", "--names"), ("topics", "describe"), ("offsets",)):
        shown = ottla(*command).text
        assert "inner-own" in shown, command
        assert not any(name in shown for name in names), command
    for command in (("topics", "list", "--internal"), ("topics", "describe", "--internal")):
        assert all(name in ottla(*command).text for name in names), command
    assert ottla("topics", "describe", "__inner").code == 0
    assert ottla("offsets", "__inner").code == 0


def test_internal_groups_are_hidden_unless_asked_for(ottla: Run, bootstrap: str) -> None:
    ottla("topics", "create", "sunk")
    for group in ("ottla-sink-app", "own-group"):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition("sunk", 0, 0)], asynchronous=False)
        consumer.close()
    for command in (("groups", "list"), ("groups", "describe", "--all", "--state")):
        assert "own-group" in ottla(*command).text
        assert "ottla-sink-app" not in ottla(*command).text
        assert "ottla-sink-app" in ottla(*command, "--internal").text
        assert "ottla-sink-app" not in ottla(*command, "--json").text
    assert ottla("groups", "describe", "ottla-sink-app").code == 0
