"""A coordinator that does not become available is told in a sentence: no command hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from cli_tools import Run, call

import ottla.testing
from ottla import NewTopic, TopicPartition
from ottla.blocking import Admin

TIMEOUT_MS = 1_500
ENDS_WITHIN_S = 10.0


@pytest.fixture(scope="module")
def loading() -> Iterator[str]:
    """A broker whose shards of groups never finish loading, as after a fault of its disk."""
    with ottla.testing.cluster(nodes=1) as cluster:
        where = cluster.bootstrap_servers
        with Admin(bootstrap_servers=where) as admin:
            admin.create_topics([NewTopic("t", partitions=1, replication_factor=1)])
            admin.alter_group_offsets("g", {TopicPartition("t", 0): 1})
        node: Any = cluster._group._started()[1]

        def unload() -> None:
            for hosted in node.broker.services.coordinators.groups._hosted.values():
                hosted.shard = None

        cluster._thread.look(unload)
        yield where


@pytest.fixture
def bootstrap(loading: str) -> str:
    return loading


@pytest.mark.parametrize(
    "command",
    [
        ("groups", "describe", "g"),
        ("groups", "delete", "g", "--yes"),
        ("groups", "delete-offsets", "g", "--topic", "t", "--yes"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-earliest", "--execute"),
    ],
    ids=" ".join,
)
def test_a_command_about_a_group_ends_with_a_sentence(loading: str, command: Any) -> None:
    began = time.monotonic()
    done = call(*command, "--bootstrap", loading, "--timeout-ms", TIMEOUT_MS)
    assert time.monotonic() - began < ENDS_WITHIN_S
    assert done.code == 1
    assert "its coordinator did not become available in time, see the broker's log" in done.err


def test_a_list_of_groups_says_that_the_broker_still_loads_them(ottla: Run) -> None:
    done = ottla("groups", "list", "--timeout-ms", TIMEOUT_MS)
    assert done.code == 1
    assert "load" in done.err
