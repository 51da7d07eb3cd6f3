"""What a client knows of a cluster: brokers, topics, and who leads each partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ottla.protocol.uuids import ZERO_UUID


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class Partition:
    index: int
    leader: int
    """-1: nobody leads it now."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: bytes
    internal: bool
    partitions: tuple[Partition, ...]
    """By index, without gaps: partition `n` is `partitions[n]`."""
    error_code: int = 0

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One answer to a metadata request."""

    cluster_id: str | None
    controller_id: int
    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)


def view_of(response: Any) -> ClusterView:
    brokers = {
        broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack)
        for broker in response.brokers
    }
    topics = [_topic(topic) for topic in response.topics]
    return ClusterView(
        response.cluster_id,
        response.controller_id,
        brokers,
        {topic.name: topic for topic in topics},
    )


def _topic(topic: Any) -> Topic:
    partitions = [_partition(partition) for partition in topic.partitions]
    return Topic(
        topic.name or "",
        topic.topic_id or ZERO_UUID,
        topic.is_internal,
        tuple(sorted(partitions, key=lambda partition: partition.index)),
        topic.error_code,
    )


def _partition(partition: Any) -> Partition:
    return Partition(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        partition.error_code,
    )
