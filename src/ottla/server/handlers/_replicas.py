"""Which replicas of a partition can be reached: shared by the answers that describe topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage

if TYPE_CHECKING:
    from ottla.node import Node

NOBODY = -1


def controller_for_clients(node: Node, reachable: dict[int, BrokerImage]) -> int:
    """Whom to send administration to. Any broker will do, as all forward it; the one that was asked
    is certainly alive. (The active controller may have died a moment ago, and some clients try for
    long to reach the one they were told of.)"""
    for broker_id in (node.node_id, *reachable):
        if broker_id in reachable:
            return broker_id
    return NOBODY


def reachable_brokers(image: MetadataImage, listener: str) -> dict[int, BrokerImage]:
    """The brokers that clients who came in by this listener can talk to."""
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
    """Replicas on brokers out of reach, or in folders that are known to have failed."""
    return [
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=True)
        if replica not in reachable or not reachable[replica].has_online(directory)
    ]


def reachable_leader(partition: PartitionImage, reachable: dict[int, BrokerImage]) -> int:
    return partition.leader if partition.leader in reachable else NO_LEADER
