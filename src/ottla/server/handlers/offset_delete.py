"""OffsetDelete: forget offsets of topics that the group no longer reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.server.handlers._coordinated import OverlappingReply

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.server.context import RequestContext


def handle(context: RequestContext, request: OffsetDeleteRequest) -> Any:
    reply = _Deletion(_sort_out(context.node.metadata.image, request))
    context.node.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.delete_offsets(request, reply, now, outbox),
    )
    return reply.result


class _Deletion(OverlappingReply):
    """Adds to the coordinator's answer what was refused before it was asked."""

    __slots__ = ("_refused",)

    def __init__(self, refused: list[OffsetDeleteResponseTopic]) -> None:
        super().__init__(lambda error: OffsetDeleteResponse(error_code=int(error.code)))
        self._refused = refused

    def resolve(self, response: Any) -> None:
        if not self.resolved and not response.error_code:
            known = {topic.name: topic for topic in response.topics}
            for topic in self._refused:
                if topic.name in known:
                    known[topic.name].partitions += topic.partitions
                else:
                    response.topics.append(topic)
        super().resolve(response)


def _sort_out(
    image: MetadataImage, request: OffsetDeleteRequest
) -> list[OffsetDeleteResponseTopic]:
    """Take out of the request the partitions that do not exist, and answer them."""
    refused = []
    kept = []
    for topic in request.topics:
        known = image.topics.get(topic.name)
        there = () if known is None else known.partitions
        missing = [one for one in topic.partitions if one.partition_index not in there]
        if missing:
            answers = [
                OffsetDeleteResponsePartition(
                    partition_index=one.partition_index,
                    error_code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                )
                for one in missing
            ]
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
            topic.partitions = [one for one in topic.partitions if one not in missing]
        if topic.partitions:
            kept.append(topic)
    request.topics = kept
    return refused
