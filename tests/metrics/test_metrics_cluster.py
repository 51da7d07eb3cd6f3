"""`ottla start --nodes 3 --metrics`: the pages of three nodes together tell of the cluster."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from metrics_pages import WAIT_S, Samples, eventually, get, scrape

from ottla.runtime.ports import free_ports

pytestmark = pytest.mark.ottla_only

PROGRAM = str(Path(sys.executable).parent / "ottla")
NODES = 3


def total(pages: list[Samples], name: str, **labels: str) -> float:
    """Return the sum over all pages of the samples that have these labels."""
    return sum(
        number
        for page in pages
        for (sample, given), number in page.items()
        if sample == name and labels.items() <= dict(given).items()
    )


class Cluster:
    def __init__(self, process: subprocess.Popen[str], servers: str, metrics: list[int]) -> None:
        self.process = process
        self.servers = {"bootstrap.servers": servers}
        self.metrics = metrics

    def kill_node(self, number: int) -> None:
        """Kill a node, which is then started again."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        for child in map(int, children.split()):
            if f"node{number}" in Path(f"/proc/{child}/cmdline").read_text().replace("-", ""):
                os.kill(child, signal.SIGKILL)
                return
        raise AssertionError(f"node {number} does not run")


def consecutive_ports() -> list[int]:
    while True:
        first = free_ports(1)[0]
        wanted = list(range(first, first + NODES))
        if wanted[-1] < 65_536:
            return wanted


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    metrics = consecutive_ports()
    command = [PROGRAM, "start", "--nodes", str(NODES), "-d", str(tmp_path), "-l", "127.0.0.1:0"]
    command.append(f"--metrics=127.0.0.1:{metrics[0]}")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if ready := re.search(r"ready in .* s: (.*), data in", line):
                yield Cluster(process, ready[1].replace(" ", ""), metrics)
                return
        raise AssertionError("the cluster did not start")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_sums_over_all_nodes_are_those_of_the_cluster(cluster: Cluster) -> None:
    admin = AdminClient(cluster.servers)
    topics = [NewTopic("single", 6, 1), NewTopic("copied", 4, 3)]
    for created in admin.create_topics(topics).values():
        created.result(WAIT_S)
    producer = Producer(cluster.servers)
    for number in range(60):
        producer.produce("single", b"x", partition=number % 6)
        producer.produce("copied", b"x", partition=number % 4)
    assert producer.flush(WAIT_S) == 0
    with closing(Consumer({**cluster.servers, "group.id": "late"})) as consumer:
        offsets = [TopicPartition("single", index, 4) for index in range(6)]
        consumer.commit(offsets=offsets, asynchronous=False)
    lag = "kafka_consumergroup_lag"
    pages = eventually(
        cluster.metrics,
        lambda pages: total(pages, lag, topic="single") == 6 * 6,
    )
    assert total(pages, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    messages = "kafka_server_brokertopicmetrics_messagesin_total"
    assert total(pages, messages, topic="single") == 60
    assert total(pages, messages, topic="copied") == 60
    out = "kafka_server_brokertopicmetrics_replicationbytesout_total"
    size = total(pages, "kafka_server_brokertopicmetrics_bytesin_total", topic="copied")
    assert total(pages, out, topic="copied") == 2 * size
    assert total(pages, "kafka_topic_partition_current_offset", topic="single") == 60
    assert total(pages, "kafka_topic_partition_replicas", topic="copied") == 4 * 3
    assert total(pages, "kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert [get(port, "/ready") for port in cluster.metrics] == [(200, "ready\n")] * 3

    shrinks = "kafka_server_replicamanager_isrshrinks_total"
    before = total(pages, shrinks)
    cluster.kill_node(2)
    alive = [cluster.metrics[0], cluster.metrics[2]]
    eventually(alive, lambda pages: total(pages, shrinks) > before, 40)
    cluster.metrics[:] = alive
    eventually(
        alive,
        lambda pages: total(pages, "kafka_server_replicamanager_underreplicatedpartitions") == 0,
        60,
    )
    assert total([scrape(port) for port in alive], "kafka_server_replicamanager_isrexpands_total")
