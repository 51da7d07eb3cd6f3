"""A client's metadata of a cluster: brokers, topics, and the leader of each partition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.client.values import TopicPartition
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
    """-1 if there is no leader now."""
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
    """The metadata at one moment. It is immutable: a newer response makes a newer view."""

    cluster_id: str | None
    controller_id: int
    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    """A requested topic that does not exist has an `error_code` and no partitions."""

    def partition(self, where: TopicPartition) -> Partition | None:
        topic = self.topics.get(where.topic)
        if topic is None or not 0 <= where.partition < len(topic.partitions):
            return None
        return topic.partitions[where.partition]

    def merged(self, answer: ClusterView, *, complete: bool) -> ClusterView:
        """Return the view updated by a response; a `complete` one lists all existing topics."""
        newer = {
            name: _newer(self.topics.get(name), topic) for name, topic in answer.topics.items()
        }
        topics = newer if complete else {**self.topics, **newer}
        return replace(answer, topics=topics)

    def only(self, topics: Iterable[str]) -> ClusterView:
        return replace(self, topics={name: self.topics[name] for name in topics})

    def without(self, topics: Iterable[str]) -> ClusterView:
        gone = set(topics)
        return replace(
            self, topics={name: one for name, one in self.topics.items() if name not in gone}
        )

    def with_leader(
        self, where: TopicPartition, leader: int, leader_epoch: int, endpoints: Iterable[Broker]
    ) -> ClusterView:
        """Return the view with a new leader that a broker named in another response; the same view
        if it is not newer."""
        known = self.partition(where)
        brokers = {**self.brokers, **{broker.node_id: broker for broker in endpoints}}
        if known is None or leader_epoch <= known.leader_epoch or leader not in brokers:
            return self
        topic = self.topics[where.topic]
        partitions = list(topic.partitions)
        partitions[where.partition] = replace(
            known, leader=leader, leader_epoch=leader_epoch, error_code=0
        )
        changed = replace(topic, partitions=tuple(partitions))
        return replace(self, brokers=brokers, topics={**self.topics, where.topic: changed})


def _newer(known: Topic | None, told: Topic) -> Topic:
    """Return the newer state of a topic: an outdated broker must not bring back a deposed leader,
    nor remove added partitions. A topic with another id is another topic."""
    if known is None or told.error_code or known.topic_id != told.topic_id:
        return told
    later = [
        known.partitions[one.index] if _is_older(one, known.partitions) else one
        for one in told.partitions
    ]
    return replace(told, partitions=(*later, *known.partitions[len(later) :]))


def _is_older(told: Partition, known: tuple[Partition, ...]) -> bool:
    return told.index < len(known) and 0 <= told.leader_epoch < known[told.index].leader_epoch


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
