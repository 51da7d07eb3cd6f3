"""Leaders of partitions and addresses of brokers, from the newest image."""

from __future__ import annotations

from typing import NamedTuple

from ottla.broker.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage


class Leadership(NamedTuple):
    """The leader of a partition, and its leader epoch."""

    leader: int
    epoch: int


class Neighbours:
    def __init__(self, node_id: int, listener: str) -> None:
        """`listener` is the name of the inter-broker listener."""
        self.node_id = node_id
        self.image: MetadataImage = EMPTY_IMAGE
        self._listener = listener

    def leadership(self, topic: str, index: int) -> Leadership | None:
        """Return the leadership of a partition; None if there is no such partition. The leader is
        `NO_LEADER` if there is none or it cannot be reached."""
        found = self.image.partition(topic, index)
        if found is None:
            return None
        if found.leader != self.node_id and self.address(found.leader) is None:
            return Leadership(NO_LEADER, found.leader_epoch)
        return Leadership(found.leader, found.leader_epoch)

    def address(self, broker_id: int) -> tuple[str, int] | None:
        """Return the broker's address; None if it is not registered, or fenced."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        endpoint = broker.endpoints.get(self._listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)
