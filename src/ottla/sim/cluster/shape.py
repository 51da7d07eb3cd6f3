"""The parts of a simulated cluster, drawn from the seed: nodes, settings, topics."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.broker.replication.replica_selector import RACK_AWARE
from ottla.client.values import TopicPartition

CLIENT_PORT = 9092
CONTROLLER_PORT = 9093
INTERNAL_PORT = 9094
"""Brokers reach each other here, if clients have to sign in."""
CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"
DATA_DIR = "/data"
METADATA_DIR = "/data-metadata"
"""The metadata log dir of nodes with a dynamic quorum; others keep it in the data dir."""
RACKS = ("north", "south")
"""Racks of nodes, and of readers, which may read from followers in their own rack."""
SPLIT_RATES = (0.0, 0.02, 0.2)
"""The single-node scenario tests partial reads and writes; here many would only cost time."""
STEADY = {
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.request.timeout.ms": "2000",
    "replica.socket.timeout.ms": "10000",
    "request.timeout.ms": "5000",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.cleaner.enable": "false",
    "log.index.size.max.bytes": "4096",
}
"""Settings of all simulated nodes, whatever the seed: they notice faults within seconds and cost
little while idle."""


@dataclass(frozen=True)
class NodeShape:
    id: int
    is_broker: bool = True
    is_controller: bool = True

    @property
    def host(self) -> str:
        return f"node-{self.id}"


@dataclass(frozen=True)
class TopicShape:
    name: str
    partitions: int
    configs: Mapping[str, str]
    keys: int = 0
    """Number of keys in use at once if the topic is a table: it is compacted and keeps the last
    record of each key. In other topics every record has a unique key."""

    def all(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, index) for index in range(self.partitions)]


@dataclass(frozen=True)
class Layout:
    """The nodes and their settings, whatever the scenario."""

    nodes: tuple[NodeShape, ...]
    replication: int
    min_insync: int
    synced: bool
    """Every record is synced before it counts (flush.messages=1): power may fail anywhere. If
    false, as by Kafka's default, only the metadata is synced."""
    settings: Mapping[str, str]
    first_voters: tuple[int, ...] = field(default=(), kw_only=True)
    """The first voters of a dynamic quorum; if empty, all controllers vote and the voters never
    change."""

    @property
    def topics(self) -> tuple[TopicShape, ...]:
        """Topics that are known in advance."""
        return ()

    @property
    def brokers(self) -> list[NodeShape]:
        return [node for node in self.nodes if node.is_broker]

    @property
    def controllers(self) -> list[NodeShape]:
        return [node for node in self.nodes if node.is_controller]

    @property
    def bootstrap(self) -> list[str]:
        return [f"{node.host}:{CLIENT_PORT}" for node in self.brokers]

    def node_settings(self, node: NodeShape) -> dict[str, str]:
        """Return what would be in this node's server.properties."""
        listeners, roles = [], []
        if node.is_broker:
            roles.append("broker")
            listeners.append(f"PLAINTEXT://{node.host}:{CLIENT_PORT}")
        if node.is_controller:
            roles.append("controller")
            listeners.append(f"CONTROLLER://{node.host}:{CONTROLLER_PORT}")
        return {
            **self.settings,
            **self._quorum_settings(),
            "node.id": str(node.id),
            "process.roles": ",".join(roles),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": DATA_DIR,
        }

    def _quorum_settings(self) -> dict[str, str]:
        addresses = [(one.id, f"{one.host}:{CONTROLLER_PORT}") for one in self.controllers]
        if self.first_voters:
            servers = ",".join(address for _, address in addresses)
            return {
                "controller.quorum.bootstrap.servers": servers,
                "metadata.log.dir": METADATA_DIR,
            }
        voters = ",".join(f"{node_id}@{address}" for node_id, address in addresses)
        return {"controller.quorum.voters": voters}


@dataclass(frozen=True)
class Shape(Layout):
    plain: TopicShape
    """Written by producers of all kinds, read by all kinds of readers."""
    source: TopicShape
    copy: TopicShape
    """Gets the records of `source`, exactly once."""
    table: TopicShape | None = None
    """Set if logs are compacted."""
    internal: tuple[TopicShape, ...] = ()
    """Internal topics that are created at the start to be compacted soon; brokers create the others
    when they need them."""
    hasty: bool = False
    """Some producers begin each transaction as soon as the last one is decided."""
    guarded: bool = False
    """Clients sign in, and may do what ACLs allow them."""
    limited: TopicShape | None = None
    """Written and read by clients that have quotas and ignore what they are told of them. Set if
    there are quotas."""

    @property
    def topics(self) -> tuple[TopicShape, ...]:
        tables = () if self.table is None else (self.table,)
        return (self.plain, self.source, self.copy, *tables)

    @property
    def created(self) -> tuple[TopicShape, ...]:
        """Topics that are created at the start."""
        limited = () if self.limited is None else (self.limited,)
        return (*self.topics, *self.internal, *limited)

    def node_settings(self, node: NodeShape) -> dict[str, str]:
        settings = {**super().node_settings(node), "broker.rack": RACKS[node.id % len(RACKS)]}
        if self.guarded:
            clients = f"PLAINTEXT://{node.host}:{CLIENT_PORT}"
            secured = f"CLIENTS://{node.host}:{CLIENT_PORT},INTERNAL://{node.host}:{INTERNAL_PORT}"
            settings["listeners"] = settings["listeners"].replace(clients, secured)
        return settings

    def __str__(self) -> str:
        kinds = [
            f"{node.id}{'b' if node.is_broker else ''}{'c' if node.is_controller else ''}"
            for node in self.nodes
        ]
        flush = "every record synced" if self.synced else "records not synced"
        first = " ".join(map(str, self.first_voters))
        return (
            f"nodes {' '.join(kinds)}, {self.replication} replicas, "
            f"min.insync.replicas={self.min_insync}, {flush}"
            f"{'' if self.table is None else ', compacted'}{', hasty' if self.hasty else ''}"
            f"{', guarded' if self.guarded else ''}{'' if self.limited is None else ', limited'}"
            f"{f', first voters {first}' if first else ''}"
        )


def drawn_shape(
    chance: random.Random, nodes: int | None = None, synced: bool | None = None
) -> Shape:
    made = _combined(nodes) if nodes is not None else _drawn_nodes(chance)
    broker_count = sum(node.is_broker for node in made)
    replication = min(broker_count, 3)
    min_insync = chance.choice((1, 2, 2)) if replication >= 2 else 1
    is_synced = chance.random() < 0.4 if synced is None else synced
    return Shape(
        made,
        replication,
        min_insync,
        is_synced,
        _settings(chance, replication, min_insync, is_synced),
        _topic(chance, "plain", chance.randint(1, 3)),
        _topic(chance, "source", partitions := chance.randint(1, 2)),
        _topic(chance, "copy", partitions),
    )


def _combined(count: int) -> tuple[NodeShape, ...]:
    return tuple(NodeShape(number) for number in range(1, count + 1))


def _drawn_nodes(chance: random.Random) -> tuple[NodeShape, ...]:
    match chance.choice(("3", "3", "3", "5", "4", "1+3", "3+2")):
        case "4":
            return (*_combined(3), NodeShape(4, is_controller=False))
        case "1+3":
            brokers = [NodeShape(number, is_controller=False) for number in (1, 2, 3)]
            return (*brokers, NodeShape(101, is_broker=False))
        case "3+2":
            controllers = [NodeShape(number, is_broker=False) for number in (101, 102, 103)]
            return (*(NodeShape(number, is_controller=False) for number in (1, 2)), *controllers)
        case count:
            return _combined(int(count))


def _settings(
    chance: random.Random, replication: int, min_insync: int, synced: bool
) -> dict[str, str]:
    settings = {
        **STEADY,
        "default.replication.factor": str(replication),
        "min.insync.replicas": str(min_insync),
        "offsets.topic.replication.factor": str(replication),
        "offsets.topic.num.partitions": str(chance.randint(1, 3)),
        "transaction.state.log.replication.factor": str(replication),
        "transaction.state.log.min.isr": str(min_insync),
        "transaction.state.log.num.partitions": str(chance.randint(1, 3)),
        "auto.create.topics.enable": "false",
        "broker.session.timeout.ms": str(chance.choice((2000, 4000, 9000))),
        "replica.lag.time.max.ms": str(chance.choice((2000, 5000, 10_000))),
        "num.replica.fetchers": str(chance.choice((1, 1, 2))),
        "group.initial.rebalance.delay.ms": str(chance.choice((0, 500))),
        "leader.imbalance.check.interval.seconds": str(chance.choice((5, 300))),
        "log.flush.offset.checkpoint.interval.ms": str(chance.choice((1000, 60_000))),
        "replica.high.watermark.checkpoint.interval.ms": str(chance.choice((500, 5000))),
    }
    if chance.random() < 0.5:
        settings["replica.selector.class"] = RACK_AWARE
    if synced:
        settings["log.flush.interval.messages"] = "1"
    return settings


def _topic(chance: random.Random, name: str, partitions: int) -> TopicShape:
    configs = {
        "internal.segment.bytes": str(chance.choice((15_000, 200_000))),
        "index.interval.bytes": str(chance.choice((500, 4096))),
        "retention.ms": "-1",
    }
    return TopicShape(name, partitions, configs)
