"""OffsetCommit: what does not exist is refused here, the rest is the coordinator's to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.server.handlers._coordinated import OverlappingReply, client

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.server.context import RequestContext

TOPIC_IDS_FROM = 10


def handle(context: RequestContext, request: OffsetCommitRequest) -> Any:
    refused = _sort_out(context.node.metadata.image, request, context.api_version)
    if refused and not request.topics:
        return OffsetCommitResponse(topics=refused)
    reply = _Commit(request, refused)
    context.node.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.commit_offsets(
            request, client(context), reply, now, outbox
        ),
    )
    return reply.result


class _Commit(OverlappingReply):
    """Adds to the coordinator's answer what was refused before it was asked."""

    __slots__ = ("_refused",)

    def __init__(
        self, request: OffsetCommitRequest, refused: list[OffsetCommitResponseTopic]
    ) -> None:
        super().__init__(lambda error: _refusal(request, error))
        self._refused = refused

    def resolve(self, response: Any) -> None:
        if self._refused and not self.resolved:
            _merge(response.topics, self._refused)
        super().resolve(response)


def _sort_out(
    image: MetadataImage, request: OffsetCommitRequest, api_version: int
) -> list[OffsetCommitResponseTopic]:
    """Take out of the request what does not exist, and answer it; ids become names."""
    refused: list[OffsetCommitResponseTopic] = []
    kept = []
    for topic in request.topics:
        by_id = api_version >= TOPIC_IDS_FROM
        known = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
        if known is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(_refuse(topic, topic.partitions, unknown))
            continue
        topic.name = known.name
        missing = [one for one in topic.partitions if one.partition_index not in known.partitions]
        if missing:
            refused.append(_refuse(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = [one for one in topic.partitions if one not in missing]
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


def _merge(
    answers: list[OffsetCommitResponseTopic], refused: list[OffsetCommitResponseTopic]
) -> None:
    known = {(topic.name, topic.topic_id): topic for topic in answers}
    for topic in refused:
        answered = known.get((topic.name, topic.topic_id))
        if answered is None:
            answers.append(topic)
        else:
            answered.partitions += topic.partitions
