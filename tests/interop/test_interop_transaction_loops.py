"""Transactions in a loop on three nodes, as `make txn-diff` plays them beside Kafka, but short."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.brokers import run_java
from bench.cluster_nodes import NODES, Trio
from transaction_loops import HERE, OPTIONS, chance_explains, compile_java, run_loop

TRANSACTIONS = 60
SEED = 13

pytestmark = [pytest.mark.ottla_only, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    with Trio(tmp_path_factory.mktemp("loops"), None, OPTIONS) as running:
        yield running


@pytest.fixture(scope="module")
def java(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compile_java(kafka_libs, tmp_path_factory.mktemp("classes"))


@pytest.mark.parametrize("scenario", ["commit", "abort"])
def test_java_producers_see_no_error_in_transactions_that_follow_each_other_at_once(
    trio: Trio, java: list[str], scenario: str
) -> None:
    outcome = run_loop(java, trio, scenario, scenario, TRANSACTIONS, SEED)
    assert (outcome.errors, outcome.unread) == ({}, ""), outcome.said
    assert outcome.committed + outcome.aborted == TRANSACTIONS


def test_librdkafka_commits_one_transaction_after_another(trio: Trio) -> None:
    command = [sys.executable, str(HERE / "rdkafka_loops.py")]
    outcome = run_loop(command, trio, "commit", "rdkafka", TRANSACTIONS, SEED)
    assert (outcome.errors, outcome.unread) == ({}, ""), outcome.said


def test_java_looks_for_hanging_transactions_on_a_broker(trio: Trio, kafka_libs: Path) -> None:
    """It asks about all partitions that the broker has, also those that it follows."""
    tool = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", trio.address)
    shown = run_java(kafka_libs, *tool, "find-hanging", "--broker-id", str(NODES[0])).stdout
    assert shown.split()[:3] == ["Topic", "Partition", "ProducerId"]
    assert len(shown.splitlines()) == 1, shown


def test_counts_differ_by_more_than_chance_only_if_they_differ_much() -> None:
    assert chance_explains(3, 0)
    assert chance_explains(37, 31)
    assert not chance_explains(14, 0)
    assert not chance_explains(366, 31)
