"""The names of kafka_exporter. Each partition is told by its leader, so sums over all nodes are
right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.metrics.exposition import GAUGE, Family, Sample, gauge, labels
from ottla.metrics.families import Families

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.replica_manager import ReplicaManager

_TOPIC = "kafka_topic_"


def exporter_families(replicas: ReplicaManager) -> Families:
    image = replicas.view.image
    yield gauge("kafka_brokers", "Brokers that serve", _serving(replicas))
    topics = [(labels(topic=name), len(topic.partitions)) for name, topic in image.topics.items()]
    yield Family(f"{_TOPIC}partitions", GAUGE, "Partitions of the topic", topics)
    led: list[tuple[str, Partition]] = []
    for topic in list(replicas.topics.values()):
        for partition in list(topic.partitions.values()):
            if partition.is_leader and partition.error is None:
                led.append((labels(topic=topic.name, partition=partition.index), partition))
            yield None
    for name, text, read in _READS:
        yield Family(f"{_TOPIC}partition_{name}", GAUGE, text, _each(led, read))


def _serving(replicas: ReplicaManager) -> int:
    return sum(not broker.fenced for broker in replicas.view.image.brokers.values())


def _each(led: list[tuple[str, Partition]], read: Callable[[Partition], int]) -> Iterator[Sample]:
    for text, partition in led:
        yield text, int(read(partition))


def _is_preferred(partition: Partition) -> bool:
    view = partition.view
    known = None if view is None else view.image.partition(partition.topic, partition.index)
    return known is not None and known.replicas[:1] == (known.leader,)


_READS: tuple[tuple[str, str, Callable[[Partition], int]], ...] = (
    ("current_offset", "The high watermark", lambda partition: partition.high_watermark),
    (
        "oldest_offset",
        "The first offset",
        lambda partition: 0 if partition.log is None else partition.log.log_start_offset,
    ),
    ("in_sync_replica", "Replicas in sync", lambda partition: len(partition.isr)),
    ("leader", "The leader's id", lambda partition: partition.leader_id),
    ("leader_is_preferred", "1 if the preferred replica leads", _is_preferred),
    ("replicas", "Replicas", lambda partition: partition.replica_count),
    (
        "under_replicated_partition",
        "1 if replicas are out of sync",
        lambda partition: len(partition.isr) < partition.replica_count,
    ),
)
