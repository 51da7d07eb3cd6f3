"""Which replicas of a partition can be reached; shared by the APIs that describe topics."""

from __future__ import annotations

from ottla.broker.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage

NOBODY = -1


def controller_for_clients(node_id: int, reachable: dict[int, BrokerImage]) -> int:
    """Return the broker to name as controller. Any broker will do, as all forward such requests,
    and the one that was asked is certainly alive. (The active controller may have died a moment
    ago, and some clients keep trying the one they were told of.)"""
    for broker_id in (node_id, *reachable):
        if broker_id in reachable:
            return broker_id
    return NOBODY


def reachable_brokers(image: MetadataImage, listener: str) -> dict[int, BrokerImage]:
    """Return the brokers that clients of this listener can reach."""
    key = ("reachable brokers", listener)
    found: dict[int, BrokerImage] | None = image.derived.get(key)
    if found is None:
        found = image.derived[key] = {
            broker.id: broker
            for broker in image.brokers.values()
            if not broker.fenced and listener in broker.endpoints
        }
    return found


def offline_replicas(partition: PartitionImage, reachable: dict[int, BrokerImage]) -> list[int]:
    """Return the replicas on brokers that cannot be reached, or in log dirs known to have
    failed."""
    return [
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=True)
        if replica not in reachable or not reachable[replica].has_online(directory)
    ]


def reachable_leader(partition: PartitionImage, reachable: dict[int, BrokerImage]) -> int:
    return partition.leader if partition.leader in reachable else NO_LEADER
