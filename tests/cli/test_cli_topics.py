"""`ottla topics` and `ottla configs` against a real broker."""

from __future__ import annotations

import pytest
from cli_tools import Run, eventually

from ottla.cli.topics.output import print_topic, replica_range
from ottla.client.network.metadata import Partition, Topic


def test_a_topic_is_created_listed_described_and_deleted(ottla: Run, topic: str) -> None:
    made = ottla("topics", "create", topic, "-p", 3, "-c", "retention.ms=1000", "--json").json
    assert made[0]["topic"] == topic
    assert (made[0]["created"], made[0]["partitions"]) == (True, 3)
    eventually(lambda: topic in [t["topic"] for t in ottla("topics", "list", "--json").json])
    (described,) = ottla("topics", "describe", topic, "--json").json
    assert described["topic_id"] == made[0]["topic_id"]
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2]
    assert all(p["leader"] in p["in_sync"] for p in described["partitions"])
    assert all(p["eligible_leader_replicas"] == [] for p in described["partitions"])
    assert ottla("topics", "delete", topic, "--yes").code == 0
    eventually(lambda: topic not in ottla("topics", "list", "--names").text.split())


def test_tables_show_people_the_same(ottla: Run, topic: str) -> None:
    assert ottla("topics", "create", topic, "-p", 2).text == (
        f"Topic {topic} created with 2 partition(s).\n"
    )
    eventually(lambda: topic in ottla("topics", "list").text)
    described = ottla("topics", "describe", topic).text
    assert "2 partition(s)" in described
    assert "in sync" in described


@pytest.mark.parametrize(
    ("replicas", "shown"), [([3, 3], 3), ([3, 2], "2-3"), ([1, 2, 3], "1-3"), ([], 0)]
)
def test_partitions_that_differ_in_replicas_are_told_as_a_range(
    replicas: list[int], shown: int | str, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = tuple(
        Partition(index, 1, 0, tuple(range(1, count + 1)), (1,), ())
        for index, count in enumerate(replicas)
    )
    topic = Topic("t", bytes(16), False, parts)
    assert replica_range(topic) == shown
    print_topic(topic, parts, {})
    assert f"replication factor {shown}\n" in capsys.readouterr().out


def test_an_existing_topic_is_an_error_unless_it_is_excused(ottla: Run, topic: str) -> None:
    ottla("topics", "create", topic)
    again = ottla("topics", "create", topic)
    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert "--if-not-exists" in again.err
    assert again.err.count("\n") == 1
    excused = ottla("topics", "create", topic, "--if-not-exists", "--json")
    assert (excused.code, excused.json[0]["created"]) == (0, False)


def test_one_topic_that_cannot_be_made_does_not_keep_the_others_from_it(
    ottla: Run, topic: str
) -> None:
    ottla("topics", "create", topic)
    outcome = ottla("topics", "create", topic, f"{topic}.b", "-p", 2)
    assert outcome.code == 1
    assert outcome.text == f"Topic {topic}.b created with 2 partition(s).\n"
    assert outcome.err.startswith(f"ottla: {topic}: TOPIC_ALREADY_EXISTS")
    told = ottla("topics", "create", topic, f"{topic}.c", "--json")
    assert told.code == 1
    assert [(one["topic"], one["created"], one.get("error")) for one in told.json] == [
        (topic, False, "TOPIC_ALREADY_EXISTS"),
        (f"{topic}.c", True, None),
    ]


def test_validate_only_creates_nothing(ottla: Run, topic: str) -> None:
    assert ottla("topics", "create", topic, "--validate-only").code == 0
    assert ottla("topics", "describe", topic).code == 1


def test_a_manual_assignment_is_followed(ottla: Run, topic: str) -> None:
    broker = ottla("cluster", "--json").json["brokers"][0]["id"]
    assert ottla("topics", "create", topic, "--assign", f"{broker},{broker}").code == 0
    (described,) = ottla("topics", "describe", topic, "--json").json
    assert [p["replicas"] for p in described["partitions"]] == [[broker], [broker]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--assign", "1:x"], "is no assignment"),
        (["--assign", "1", "-p", "2"], "already says"),
        (["-c", "retention.ms"], "KEY=VALUE"),
        (["-p", "0"], "--partitions"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(
    ottla: Run, topic: str, options: list[str], words: str
) -> None:
    outcome = ottla("topics", "create", topic, *options)
    assert outcome.code == 2
    assert words in outcome.err


def test_an_unknown_setting_is_the_brokers_error(ottla: Run, topic: str) -> None:
    outcome = ottla("topics", "create", topic, "-c", "no.such.key=1")
    assert outcome.code == 1
    assert "no.such.key" in outcome.err


def test_missing_topics_are_named(ottla: Run, topic: str) -> None:
    described = ottla("topics", "describe", topic)
    assert described.code == 1
    assert f"ottla topics create {topic}" in described.err
    deleted = ottla("topics", "delete", topic, "--yes")
    assert (deleted.code, topic in deleted.err) == (1, True)
    assert ottla("topics", "delete", topic, "--if-exists", "--yes").code == 0


def test_one_missing_topic_does_not_keep_the_others_from_being_deleted(
    ottla: Run, topic: str
) -> None:
    ottla("topics", "create", topic)
    outcome = ottla("topics", "delete", f"{topic}.missing", topic, "--json", "--yes")
    assert outcome.code == 1
    assert {entry["topic"]: entry["deleted"] for entry in outcome.json} == {
        topic: True,
        f"{topic}.missing": False,
    }


def test_partitions_are_added_and_settings_changed(ottla: Run, topic: str) -> None:
    ottla("topics", "create", topic, "-p", 1, "-c", "segment.bytes=1048576")
    altered = ottla(
        "topics", "alter", topic, "-p", 4, "--set", "retention.ms=5000", "--delete", "segment.bytes"
    )
    assert altered.code == 0
    assert len(ottla("topics", "describe", topic, "--json").json[0]["partitions"]) == 4
    settings = {
        c["name"]: c["value"] for c in ottla("configs", "describe", "--topic", topic, "--json").json
    }
    assert settings["retention.ms"] == "5000"
    assert "segment.bytes" not in settings
    fewer = ottla("topics", "alter", topic, "-p", 2)
    assert (fewer.code, "INVALID_PARTITIONS" in fewer.err) == (1, True)
    assert ottla("topics", "alter", topic).code == 2


def test_configs_tell_value_and_source(ottla: Run, topic: str) -> None:
    ottla("topics", "create", topic, "-c", "cleanup.policy=delete")
    changed = ottla("configs", "alter", "--topic", topic, "--append", "cleanup.policy=compact")
    assert changed.code == 0
    settings = {e["name"]: e for e in ottla("configs", "describe", "--topic", topic, "--json").json}
    assert settings["cleanup.policy"]["value"] == "delete,compact"
    assert settings["cleanup.policy"]["source"] == "dynamic-topic"
    assert "retention.ms" not in settings
    assert (
        ottla("configs", "alter", "--topic", topic, "--subtract", "cleanup.policy=delete").code == 0
    )
    everything = ottla("configs", "describe", "--topic", topic, "--all", "--docs", "--json").json
    by_name = {entry["name"]: entry for entry in everything}
    assert by_name["cleanup.policy"]["value"] == "compact"
    assert by_name["retention.ms"]["source"] == "default"
    assert by_name["retention.ms"]["documentation"]
    assert "retention.ms" in ottla("configs", "describe", "--topic", topic, "--all").text


def test_broker_settings_can_be_seen_and_changed(ottla: Run) -> None:
    broker = ottla("cluster", "--json").json["brokers"][0]["id"]
    settings = ottla("configs", "describe", "--broker", broker, "-a", "--json").json
    assert all(e["default"] == (e["source"] == "default") for e in settings)
    assert any(e["source"] == "static-broker" for e in settings)
    names = {e["name"] for e in settings}
    assert {"log.segment.bytes", "listeners"} <= names
    key = "log.cleaner.backoff.ms"
    assert ottla("configs", "alter", "--broker", broker, "--set", f"{key}=16000").code == 0

    def is_changed() -> bool:
        shown = ottla("configs", "describe", "--broker", broker, "--json").json
        return [e["value"] for e in shown if e["name"] == key] == ["16000"]

    eventually(is_changed)
    assert ottla("configs", "alter", "--broker", broker, "--delete", key).code == 0


def test_the_default_for_all_brokers_can_be_changed(ottla: Run) -> None:
    key = "log.cleaner.delete.retention.ms"
    assert ottla("configs", "alter", "--cluster-default", "--set", f"{key}=86500000").code == 0
    shown = {e["name"]: e for e in ottla("configs", "describe", "--cluster-default", "--json").json}
    assert shown[key]["value"] == "86500000"
    assert shown[key]["source"] == "dynamic-cluster-default"
    assert ottla("configs", "alter", "--cluster-default", "--delete", key).code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe"],
        ["describe", "--topic", "t", "--broker", "1"],
        ["alter", "--topic", "t"],
        ["alter", "--topic", "t", "--set", "x"],
    ],
)
def test_configs_need_one_resource_and_a_change(ottla: Run, arguments: list[str]) -> None:
    assert ottla("configs", *arguments).code == 2


def test_a_broker_that_is_not_there_is_named_with_those_that_are(ottla: Run) -> None:
    outcome = ottla("configs", "describe", "--broker", 77)
    assert outcome.code == 1
    assert "no broker '77'" in outcome.err
