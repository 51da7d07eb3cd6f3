"""OffsetDelete: delete offsets of topics that the group no longer reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.arguments import require_group_id
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.server.context import BrokerContext


def handle(context: BrokerContext, request: OffsetDeleteRequest) -> Any:
    refused = _sort_out(context.services.metadata.image, request)
    reply = Reply(
        lambda error: OffsetDeleteResponse(error_code=int(error.code)),
        partial(_with_refused, refused),
        holds_connection=False,
    )
    if reply.refused(require_group_id, request.group_id):
        return reply.result
    context.services.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.delete_offsets(request, reply, now, outbox),
    )
    return reply.result


def _with_refused(
    refused: list[OffsetDeleteResponseTopic], response: OffsetDeleteResponse
) -> OffsetDeleteResponse:
    """Add the partitions refused before to the coordinator's answer."""
    if not response.error_code:
        known = {topic.name: topic for topic in response.topics}
        for topic in refused:
            if topic.name in known:
                known[topic.name].partitions += topic.partitions
            else:
                response.topics.append(topic)
    return response


def _sort_out(
    image: MetadataImage, request: OffsetDeleteRequest
) -> list[OffsetDeleteResponseTopic]:
    """Remove unknown partitions from the request and return their errors."""
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
            topic.partitions = [one for one in topic.partitions if one.partition_index in there]
        if topic.partitions:
            kept.append(topic)
    request.topics = kept
    return refused


HANDLER = Handler(on_broker=handle)
