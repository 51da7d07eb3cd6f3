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
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext


def handle(context: BrokerContext, request: OffsetDeleteRequest) -> Any:
    if not context.may(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    refused = _sort_out(context, request)
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
    context: BrokerContext, request: OffsetDeleteRequest
) -> list[OffsetDeleteResponseTopic]:
    """Remove partitions that are unknown, or that the client may not read, from the request and
    return their errors."""
    image = context.services.metadata.image
    refused = []
    kept = []
    for topic in request.topics:
        if not context.may(Operation.READ, ResourceType.TOPIC, topic.name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused.append(_refuse(topic, topic.partitions, error))
            continue
        known = image.topics.get(topic.name)
        there = () if known is None else known.partitions
        missing = [one for one in topic.partitions if one.partition_index not in there]
        if missing:
            refused.append(_refuse(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = [one for one in topic.partitions if one.partition_index in there]
        if topic.partitions:
            kept.append(topic)
    request.topics = kept
    return refused


def _refuse(
    topic: OffsetDeleteRequestTopic,
    partitions: list[OffsetDeleteRequestPartition],
    error: ErrorCode,
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(
                partition_index=one.partition_index, error_code=int(error)
            )
            for one in partitions
        ],
    )


HANDLER = Handler(on_broker=handle)
