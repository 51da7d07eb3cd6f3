"""Two nodes of Apache Kafka: the first is the controller and stays, the second comes and goes.

Our own broker is a single node, so leaders and coordinators that move are Kafka's. The topics of
the coordinators have one partition with a copy on each node: move its leader, and they move.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.brokers import HOST, Kafka, free_port, run_java
from client_load import STARTERS, eventually

from ottla import Admin, TopicPartition
from ottla.client.network.metadata import Partition, Topic

OFFSETS = TopicPartition("__consumer_offsets", 0)
TRANSACTIONS = TopicPartition("__transaction_state", 0)
FIRST, SECOND = 1, 2


class Node(Kafka):
    JVM = ("-server", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    OPTIONS = {
        "controller.listener.names": "CONTROLLER",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "2",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        "min.insync.replicas": "1",
        "auto.leader.rebalance.enable": "false",
    }

    def __init__(self, folder: Path, libs: Path, node: int, controller: int, cluster: str) -> None:
        super().__init__(folder, libs=libs)
        self.node = node
        self.controller = controller
        self.cluster = cluster
        self.port = free_port()

    def prepare(self) -> None:
        own = f"PLAINTEXT://{HOST}:{self.port}"
        both = f"{own},CONTROLLER://{HOST}:{self.controller}"
        lines: Mapping[str, str] = {
            "node.id": str(self.node),
            "process.roles": "broker,controller" if self.node == FIRST else "broker",
            "listeners": both if self.node == FIRST else own,
            "controller.quorum.bootstrap.servers": f"{HOST}:{self.controller}",
            "log.dirs": str(self.data),
            **self.OPTIONS,
        }
        self._file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        if not (self.data / "meta.properties").exists():
            kind = "--standalone" if self.node == FIRST else "--no-initial-controllers"
            # In one word: one in 64 of these ids begins like an option.
            format_it = ("kafka.tools.StorageTool", "format", kind, f"--cluster-id={self.cluster}")
            run_java(self.libs, *format_it, "-c", str(self._file))


class Pair:
    def __init__(self, folder: Path, libs: Path) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        controller = free_port()
        self.first = Node(folder / "first", libs, FIRST, controller, cluster)
        self.second = Node(folder / "second", libs, SECOND, controller, cluster)

    @property
    def address(self) -> str:
        return f"{self.first.address},{self.second.address}"

    def start(self) -> None:
        """From threads that stay: a broker ends with the one that started it."""
        for starting in [STARTERS.submit(node.start) for node in (self.first, self.second)]:
            starting.result()

    def remove(self) -> None:
        self.second.remove()
        self.first.remove()


@contextmanager
def kafka_pair(folder: Path, libs: Path) -> Iterator[Pair]:
    pair = Pair(folder, libs)
    try:
        pair.start()
        yield pair
    finally:
        pair.remove()


async def described(admin: Admin, places: Collection[TopicPartition]) -> list[Partition]:
    topics = await admin.describe_topics({one.topic for one in places})
    found = []
    for place in places:
        topic = topics[place.topic]
        assert isinstance(topic, Topic), topic
        found.append(topic.partitions[place.partition])
    return found


async def in_sync(admin: Admin, *partitions: TopicPartition) -> None:
    """Until both nodes have all that is there."""

    async def all_are() -> bool:
        return all(len(one.isr) == 2 for one in await described(admin, partitions))

    await eventually(all_are, f"two copies of {partitions}")


async def lead(admin: Admin, node: int, *partitions: TopicPartition) -> None:
    """Make a node the leader, by making it the preferred replica first."""
    other = FIRST + SECOND - node
    await in_sync(admin, *partitions)
    wanted = {partition: [node, other] for partition in partitions}
    assert set((await admin.alter_partition_reassignments(wanted)).values()) == {None}
    await admin.elect_leaders(partitions)

    async def leads() -> bool:
        found = {one.leader for one in await described(admin, partitions)}
        if found != {node}:
            await admin.elect_leaders(partitions)
        return found == {node}

    await eventually(leads, f"node {node} leads {partitions}")
