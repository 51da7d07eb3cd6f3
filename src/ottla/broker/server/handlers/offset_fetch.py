"""OffsetFetch: the offsets of one group (up to version 7) or of several, each from its own
shard."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.offsets.fetch import no_offset
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Gathering
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
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.coordinator.group_shard import GroupShard
    from ottla.broker.coordinator.outbox import Now, Outbox
    from ottla.broker.coordinator.shard import Token
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.server.context import BrokerContext

GROUP_ERROR_FROM = 2
"""Before this version, an error of the whole group is reported for each of its partitions."""
SEVERAL_GROUPS_FROM = 8
TOPIC_IDS_FROM = 10


def handle(context: BrokerContext, request: OffsetFetchRequest) -> Any:
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
    context: BrokerContext, group: OffsetFetchRequestGroup, require_stable: bool, reply: Gathering
) -> None:
    token: Token = reply.part(partial(_refusal, group))
    if not context.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
        token.fail(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    by_id = context.api_version >= TOPIC_IDS_FROM
    is_guarded = context.services.authorizer is not None
    image = context.services.metadata.image
    refused: list[OffsetFetchResponseTopics] = []
    if by_id:
        refused += _ids_to_names(image, group)
    if is_guarded:
        refused += _sort_out(context, group)
    shows_all = group.topics is None

    def step(shard: GroupShard, _now: Now, outbox: Outbox) -> None:
        answer = shard.fetch_offsets(group, require_stable=require_stable)
        if by_id:
            _name_ids(image, answer)
        if is_guarded and shows_all:
            _hide(context, answer)
        if not answer.error_code:
            answer.topics += refused
        outbox.reply(token, answer)

    context.services.coordinators.groups.request(group.group_id, token, step, writes=False)


def _refusal(group: OffsetFetchRequestGroup, error: KafkaError) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=int(error.code))


def _refuse(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[no_offset(index, error) for index in topic.partition_indexes],
    )


# --- rights ---------------------------------------------------------------------------------


def _sort_out(
    context: BrokerContext, group: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Remove topics that the client may not describe from the request and return their errors."""
    if group.topics is None:
        return []
    refused = []
    kept = []
    for topic in group.topics:
        if context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            kept.append(topic)
        else:
            refused.append(_refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    group.topics = kept
    return refused


def _hide(context: BrokerContext, answer: OffsetFetchResponseGroup) -> None:
    """Remove topics that the client may not describe from an answer about all topics."""
    answer.topics = [
        topic
        for topic in answer.topics
        if context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quiet=True)
    ]


# --- topic ids ------------------------------------------------------------------------------


def _ids_to_names(
    image: MetadataImage, group: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Fill in the topic names of the request. Returns the errors of unknown topics and removes
    these."""
    if group.topics is None:
        return []
    refused = []
    known = []
    for topic in group.topics:
        found = image.topics_by_id.get(topic.topic_id)
        if found is None:
            refused.append(_refuse(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            topic.name = found.name
            known.append(topic)
    group.topics = known
    return refused


def _name_ids(image: MetadataImage, answer: OffsetFetchResponseGroup) -> None:
    """Fill in the topic ids of an answer; offsets of topics that no longer exist are left out."""
    named = []
    for topic in answer.topics:
        found = image.topics.get(topic.name)
        if found is not None:
            topic.topic_id = found.id
            named.append(topic)
    answer.topics = named


# --- requests of one group ------------------------------------------------------------------


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


HANDLER = Handler(on_broker=handle)
