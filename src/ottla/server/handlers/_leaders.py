"""Telling a client that came to the wrong broker where to go instead (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.metadata.image import PartitionImage
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.metadata.image import Endpoint
    from ottla.server.context import RequestContext

WRONG_LEADER: Final = (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH))


def placed(context: RequestContext, topic: str | bytes, index: int) -> PartitionImage | None:
    """Where the metadata says that a partition is; the topic by name or by id."""
    image = context.node.replicas.view.image
    by_id = isinstance(topic, bytes)
    found = image.topics_by_id.get(topic) if by_id else image.topics.get(topic)  # type: ignore[arg-type]
    return None if found is None else found.partitions.get(index)


def addresses(
    context: RequestContext, leader_ids: Iterable[int]
) -> list[tuple[int, Endpoint, str | None]]:
    """(id, address, rack) of each that can be reached by the listener of this connection."""
    view = context.node.replicas.view
    found = []
    for leader_id in dict.fromkeys(leader_ids):
        broker = view.broker(leader_id)
        endpoint = view.endpoint(leader_id, context.connection.listener_name)
        if broker is not None and endpoint is not None:
            found.append((leader_id, endpoint, broker.rack))
    return found
