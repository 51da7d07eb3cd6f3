"""OffsetFetch: one group (up to version 7) or several, each from the shard it belongs to."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.coordinator.offsets.fetch import no_offset
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.server.handlers._coordinated import Gathering

if TYPE_CHECKING:
    from ottla.coordinator.group_shard import GroupShard
    from ottla.coordinator.outbox import Now, Outbox
    from ottla.coordinator.shard import Token
    from ottla.metadata.image import MetadataImage
    from ottla.server.context import RequestContext

GROUP_ERROR_FROM = 2
"""Before, an error of the whole group is told with each of its partitions."""
SEVERAL_GROUPS_FROM = 8
TOPIC_IDS_FROM = 10


def handle(context: RequestContext, request: OffsetFetchRequest) -> Any:
    several = context.api_version >= SEVERAL_GROUPS_FROM
    groups = request.groups if several else [_as_group(request)]
    if several:
        reply = Gathering(lambda parts: OffsetFetchResponse(groups=parts))
    else:
        reply = Gathering(lambda parts: _of_one_group(parts[0], groups[0], context.api_version))
    for group in groups:
        _ask(context, group, request.require_stable, reply)
    reply.close()
    return reply.result


def _ask(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool, reply: Gathering
) -> None:
    finish = None
    if context.api_version >= TOPIC_IDS_FROM:
        image = context.node.metadata.image
        finish = partial(_name_ids, image, refused=_ids_to_names(image, group))

    def step(shard: GroupShard, _now: Now, outbox: Outbox) -> None:
        answer = shard.fetch_offsets(group, require_stable=require_stable)
        if finish is not None:
            finish(answer)
        outbox.reply(token, answer)

    token: Token = reply.part(partial(_refusal, group))
    context.node.coordinators.groups.request(group.group_id, token, step, writes=False)


def _refusal(group: OffsetFetchRequestGroup, error: KafkaError) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=int(error.code))


# --- topic ids ------------------------------------------------------------------------------


def _ids_to_names(
    image: MetadataImage, group: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Give the topics of the request their names; the answers for those that do not exist."""
    if group.topics is None:
        return []
    refused = []
    known = []
    for topic in group.topics:
        found = image.topics_by_id.get(topic.topic_id)
        if found is None:
            refused.append(_unknown_id(topic))
        else:
            topic.name = found.name
            known.append(topic)
    group.topics = known
    return refused


def _unknown_id(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        partitions=[
            no_offset(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes
        ],
    )


def _name_ids(
    image: MetadataImage,
    answer: OffsetFetchResponseGroup,
    *,
    refused: list[OffsetFetchResponseTopics],
) -> None:
    """Give the topics of an answer their ids; offsets of topics that are gone have no place."""
    named = []
    for topic in answer.topics:
        found = image.topics.get(topic.name)
        if found is not None:
            topic.topic_id = found.id
            named.append(topic)
    answer.topics = named if answer.error_code else named + refused


# --- one group ------------------------------------------------------------------------------


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )


def _of_one_group(
    answer: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, api_version: int
) -> OffsetFetchResponse:
    topics = answer.topics
    if answer.error_code and api_version < GROUP_ERROR_FROM:
        error = ErrorCode.of(answer.error_code)
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[no_offset(index, error) for index in topic.partition_indexes],
            )
            for topic in asked.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=answer.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=one.partition_index,
                        committed_offset=one.committed_offset,
                        committed_leader_epoch=one.committed_leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
