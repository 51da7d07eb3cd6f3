"""Tells a client that asked the wrong broker where the leader is (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.image import PartitionImage
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.metadata.image import Endpoint
    from ottla.broker.server.context import BrokerContext

WRONG_LEADER: Final = (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH))


def placed(context: BrokerContext, topic: str | bytes, index: int) -> PartitionImage | None:
    """Return the partition's metadata, or None; the topic is given by name or by id."""
    image = context.services.replicas.view.image
    by_id = isinstance(topic, bytes)
    found = image.topics_by_id.get(topic) if by_id else image.topics.get(topic)  # type: ignore[arg-type]
    return None if found is None else found.partitions.get(index)


def addresses(
    context: BrokerContext, leader_ids: Iterable[int]
) -> list[tuple[int, Endpoint, str | None]]:
    """Return (id, address, rack) of each leader that has the listener of this connection."""
    view = context.services.replicas.view
    found = []
    for leader_id in dict.fromkeys(leader_ids):
        broker = view.broker(leader_id)
        endpoint = view.endpoint(leader_id, context.caller.listener_name)
        if broker is not None and endpoint is not None:
            found.append((leader_id, endpoint, broker.rack))
    return found
