"""`ottla quotas` against a broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from bench.brokers import Broker
from cli_tools import Run, call

from ottla.broker.metadata.security_image import QuotaKey

pytestmark = pytest.mark.ottla_only


@pytest.fixture
def quotas(broker: Broker, topic: str) -> Iterator[Run]:
    def run(*words: object) -> Any:
        return call("quotas", *words, environment={"OTTLA_BOOTSTRAP": broker.address})

    yield run
    for entity in run("list", "--user", topic, "--json").json:
        client = entity["entity"].get("client-id")
        named = () if "client-id" not in entity["entity"] else ("--client", client)
        assert run("remove", "--user", topic, *named, "--yes").code == 0


def test_quotas_are_set_listed_and_removed(quotas: Run, topic: str) -> None:
    to_user = ("--user", topic)
    to_both = (*to_user, "--client", "etl")
    assert quotas("set", "producer_byte_rate=1048576", "consumer_byte_rate=2e6", *to_user).code == 0
    told = quotas("set", "request_percentage=12.5", *to_both)
    assert told.text.strip() == f"Set request_percentage=12.5 of user {topic}, client id etl."
    assert quotas("list", *to_user, "--json").json == [
        {
            "entity": {"user": topic},
            "quotas": {"consumer_byte_rate": 2_000_000.0, "producer_byte_rate": 1_048_576.0},
        },
        {"entity": {"user": topic, "client-id": "etl"}, "quotas": {"request_percentage": 12.5}},
    ]
    assert len(quotas("list", *to_user, "--strict", "--json").json) == 1
    shown = quotas("list", *to_both).text
    assert "12.5" in shown
    assert "1048576" not in shown
    assert quotas("remove", "consumer_byte_rate", *to_user, "--yes").code == 0
    (left,) = quotas("list", *to_user, "--strict", "--json").json
    assert left["quotas"] == {"producer_byte_rate": 1_048_576.0}


def test_a_dry_run_is_checked_by_the_cluster_and_changes_nothing(quotas: Run, topic: str) -> None:
    told = quotas("set", "producer_byte_rate=5", "--user", topic, "--dry-run")
    assert told.text.startswith("Would set producer_byte_rate=5")
    assert quotas("list", "--user", topic, "--json").json == []
    refused = quotas("set", "no_such_quota=5", "--user", topic, "--dry-run")
    assert refused.code == 1
    assert "Invalid configuration key no_such_quota" in refused.err


def test_the_options_of_kafka_configs_are_understood(quotas: Run, topic: str) -> None:
    keys = "producer_byte_rate=5,consumer_byte_rate=6"
    assert quotas("set", "--alter", "--add-config", keys, "--user", topic).code == 0
    (found,) = quotas("list", "--describe", "--user", topic, "--json").json
    assert found["quotas"] == {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}
    gone = ("--delete-config", "producer_byte_rate,consumer_byte_rate")
    assert quotas("remove", "--alter", *gone, "--user", topic, "--yes").code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("set", "producer_byte_rate=5"), "--user, --client, --ip"),
        (("set", "producer_byte_rate", "--user", "u"), "QUOTA=NUMBER"),
        (("set", "producer_byte_rate=0", "--user", "u"), "above 0"),
        (("set", "a=1", "--user", "u", "--user-defaults"), "exclude each other"),
        (("set", "a=1", "a=2", "--user", "u"), "given twice"),
        (("set", "a=1", "--user", "User:u"), "only the name, 'u'"),
    ],
)
def test_what_is_wrong_is_told_before_the_cluster_is_asked(
    quotas: Run, words: tuple[str, ...], told: str
) -> None:
    refused = quotas(*words)
    assert refused.code == 2
    assert told in " ".join(refused.err.replace("│", " ").split())


def test_what_is_not_there_cannot_be_removed(quotas: Run, topic: str) -> None:
    refused = quotas("remove", "--user", topic, "--yes")
    assert refused.code == 1
    assert "has no quotas" in refused.err


def test_the_help_names_every_quota(quotas: Run) -> None:
    text = quotas("set", "--help").text
    assert all(key in text for key in QuotaKey)
