"""OffsetCommit: unknown partitions are refused here; the coordinator decides about the rest."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply, client
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext

TOPIC_IDS_FROM = 10


def handle(context: BrokerContext, request: OffsetCommitRequest) -> Any:
    if not context.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return _refusal(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    refused = _sort_out(context, request)
    if not request.topics:
        return OffsetCommitResponse(topics=refused)
    reply = Reply(
        lambda error: _refusal(request, error),
        partial(_with_refused, refused) if refused else None,
        holds_connection=False,
    )
    context.services.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.commit_offsets(
            request, client(context), reply, now, outbox
        ),
    )
    return reply.result


def _sort_out(
    context: BrokerContext, request: OffsetCommitRequest
) -> list[OffsetCommitResponseTopic]:
    """Remove topics and partitions that are unknown, or that the client may not read, from the
    request and return their errors; replace topic ids by names."""
    image = context.services.metadata.image
    by_id = context.api_version >= TOPIC_IDS_FROM
    refused: list[OffsetCommitResponseTopic] = []
    kept = []
    for topic in request.topics:
        known = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
        if known is None and by_id:
            refused.append(_refuse(topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        name = topic.name if known is None else known.name
        if not context.may(Operation.READ, ResourceType.TOPIC, name):
            refused.append(_refuse(topic, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        if known is None:
            refused.append(_refuse(topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        topic.name = known.name
        missing = [one for one in topic.partitions if one.partition_index not in known.partitions]
        if missing:
            refused.append(_refuse(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            there = known.partitions
            topic.partitions = [one for one in topic.partitions if one.partition_index in there]
        if topic.partitions or not missing:
            kept.append(topic)
    request.topics = kept
    return refused


def _refuse(
    topic: OffsetCommitRequestTopic,
    partitions: list[OffsetCommitRequestPartition],
    error: ErrorCode,
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=one.partition_index, error_code=int(error)
            )
            for one in partitions
        ],
    )


def _refusal(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[_refuse(topic, topic.partitions, error.code) for topic in request.topics]
    )


def _with_refused(
    refused: list[OffsetCommitResponseTopic], response: OffsetCommitResponse
) -> OffsetCommitResponse:
    """Add the partitions refused before to the coordinator's answer."""
    known = {(topic.name, topic.topic_id): topic for topic in response.topics}
    for topic in refused:
        answered = known.get((topic.name, topic.topic_id))
        if answered is None:
            response.topics.append(topic)
        else:
            answered.partitions += topic.partitions
    return response


HANDLER = Handler(on_broker=handle)
