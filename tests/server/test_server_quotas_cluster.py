"""Quotas on three nodes: what nodes do among themselves is exempt, and the controller keeps one
budget for changes, whichever broker is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from server_wire import batch_of, produce_request

import ottla.testing
from broker_wire import Wire, until_served
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.testing.thread_cluster import Cluster
from quota_questions import change, find

pytestmark = pytest.mark.ottla_only

NODES = 3
CLIENT = "limited"


class At:
    def __init__(self, address: str) -> None:
        self.port = int(address.rpartition(":")[2])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ottla.testing.cluster(nodes=NODES) as running:
        yield running


@pytest.fixture
def wires(cluster: Cluster) -> Iterator[list[Wire]]:
    opened = [
        Wire(At(address), client_id=CLIENT) for address in cluster.bootstrap_servers.split(",")
    ]
    yield opened
    for wire in opened:
        wire.close()


def set_quota(wires: list[Wire], entity: list[tuple[str, str | None]], **rates: float) -> None:
    """Return when each broker has it."""
    answer = wires[0].ask(change((entity, list(rates.items()))), 1)
    assert answer.entries[0].error_code == 0, answer
    named = sorted(entity)
    for wire in wires:
        deadline = time.monotonic() + 10
        while not any(
            sorted((part.entity_type, part.entity_name) for part in entry.entity) == named
            for entry in wire.ask(find(), 1).entries
        ):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def create(name: str, partitions: int, replicas: int) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def test_brokers_share_the_budget_for_changes(wires: list[Wire]) -> None:
    set_quota(wires, [("client-id", CLIENT)], controller_mutation_rate=1.0)
    codes = [
        wire.ask(create(f"t{number}", 6, 1), 7).topics[0].error_code
        for number, wire in enumerate(wires)
    ]
    assert codes == [0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    started = time.monotonic()
    assert wires[-1].ask(create("t3", 1, 1), 7).topics[0].error_code == 0
    assert time.monotonic() - started > 0.3, "the broker that forwards mutes its client"


def test_replicas_are_copied_however_little_everybody_may_use(wires: list[Wire]) -> None:
    """Nodes are ANONYMOUS, too."""
    generous = {"producer_byte_rate": 1e9, "request_percentage": 1e6, "consumer_byte_rate": 1e9}
    set_quota(wires, [("client-id", CLIENT), ("user", None)], **generous)
    set_quota(wires, [("user", None)], request_percentage=0.0001, consumer_byte_rate=1.0)
    assert wires[0].ask(create("copied", 1, NODES), 5).topics[0].error_code == 0

    def leader() -> int:
        (topic,) = (
            wires[0].ask(MetadataRequest(topics=[MetadataRequestTopic(name="copied")]), 12).topics
        )
        return int(topic.partitions[0].leader_id) if topic.partitions else -1

    deadline = time.monotonic() + 10
    while (number := leader()) < 0:
        assert time.monotonic() < deadline
    wire = wires[number - 1]
    request = produce_request("copied", {0: batch_of(-1, -1, -1, b"x" * 2_000)}, acks=-1)
    until_served(
        lambda: wire.ask(request, 9),
        lambda answer: int(answer.responses[0].partition_responses[0].error_code),
    )
    started = time.monotonic()
    for _ in range(30):
        answer = wire.ask(request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answer.throttle_time_ms == 0
    assert time.monotonic() - started < 10
