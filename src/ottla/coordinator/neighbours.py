"""Who leads a partition, and where this broker reaches the others: by the newest image."""

from __future__ import annotations

from typing import NamedTuple

from ottla.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage


class Leadership(NamedTuple):
    """Who leads a partition, and since which epoch."""

    leader: int
    epoch: int


class Neighbours:
    def __init__(self, node_id: int, listener: str) -> None:
        """`listener` is the name of the listener by which brokers talk to each other."""
        self.node_id = node_id
        self.image: MetadataImage = EMPTY_IMAGE
        self._listener = listener

    def leadership(self, topic: str, index: int) -> Leadership | None:
        """None if there is no such partition; its leader is `NO_LEADER` if it has none, or one
        that cannot be reached."""
        found = self.image.partition(topic, index)
        if found is None:
            return None
        if found.leader != self.node_id and self.address(found.leader) is None:
            return Leadership(NO_LEADER, found.leader_epoch)
        return Leadership(found.leader, found.leader_epoch)

    def address(self, broker_id: int) -> tuple[str, int] | None:
        """None if this broker is not registered, or fenced."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        endpoint = broker.endpoints.get(self._listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)
