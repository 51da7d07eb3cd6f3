"""Computes the state of a test's cluster from the metadata of its running nodes."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.metadata.image import NO_LEADER, MetadataImage
from ottla.node import Node

Nodes = Mapping[int, Node]
"""The nodes that run and have started, by id."""


class NotReady(TimeoutError):
    """A cluster did not reach a state in time; the message says what is missing."""


def controller(running: Nodes) -> int | None:
    """Return the active controller by the newest epoch that any node has seen: a node that was
    frozen may still believe that it is active."""
    known = [
        (node.metadata.epoch, node.metadata.leader_id)
        for node in running.values()
        if node.metadata.leader_id >= 0
    ]
    return max(known)[1] if known else None


def leader_of(running: Nodes, topic: str, partition: int) -> int | None:
    """Return the leader by the newest metadata that any node has."""
    images = [node.metadata.image for node in running.values()]
    if not images:
        return None
    found = max(images, key=lambda image: image.offset).partition(topic, partition)
    return None if found is None or found.leader == NO_LEADER else found.leader


def not_ready(running: Nodes) -> str | None:
    """Return what is missing until all nodes see each other as active; None if nothing is."""
    for number, node in running.items():
        if node.failure.done():
            raise node.failure.result()
        for other in running:
            broker = node.metadata.image.brokers.get(other)
            if broker is None or not broker.is_active:
                return f"node {number} does not know node {other} as usable"
    return None


def not_in_sync(running: Nodes) -> str | None:
    """Return what is missing until every partition has a leader and all its replicas on running
    nodes are in sync; None if nothing is."""
    if (reason := not_ready(running)) is not None:
        return reason
    for number, node in running.items():
        if (lag := _out_of_sync(node.metadata.image, set(running))) is not None:
            return f"node {number} knows {lag}"
    return None


def _out_of_sync(image: MetadataImage, running: set[int]) -> str | None:
    for topic in image.topics.values():
        for one in topic.partitions.values():
            if one.leader not in running or not running & set(one.replicas) <= set(one.isr):
                return f"{topic.name}-{one.index} led by {one.leader}, in sync on {list(one.isr)}"
    return None
