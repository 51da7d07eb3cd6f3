"""Which replicas of a partition can be reached: shared by the answers that describe topics."""

from __future__ import annotations

from ottla.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage


def reachable(broker: BrokerImage | None, listener: str) -> bool:
    """Can clients that came in by this listener talk to the broker?"""
    return broker is not None and not broker.fenced and listener in broker.endpoints


def offline_replicas(image: MetadataImage, partition: PartitionImage, listener: str) -> list[int]:
    offline = []
    for replica in partition.replicas:
        broker = image.brokers.get(replica)
        if (
            broker is None
            or not reachable(broker, listener)
            or not broker.has_online(partition.directory_of(replica))
        ):
            offline.append(replica)
    return offline


def reachable_leader(image: MetadataImage, partition: PartitionImage, listener: str) -> int:
    leader = partition.leader
    return leader if reachable(image.brokers.get(leader), listener) else NO_LEADER
