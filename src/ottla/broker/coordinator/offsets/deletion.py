"""OffsetDelete, and offsets of deleted topics."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.coordinator.offsets.store import OffsetStore, no_topic_id
from ottla.broker.coordinator.outbox import Outbox
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def delete(
    store: OffsetStore,
    request: OffsetDeleteRequest,
    is_subscribed: Callable[[str], bool],
    outbox: Outbox,
) -> OffsetDeleteResponse:
    """Delete the named offsets, except those of topics that the group subscribes to."""
    response = OffsetDeleteResponse()
    for topic in request.topics:
        subscribed = is_subscribed(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        answers = []
        for partition in topic.partitions:
            index = partition.partition_index
            if not subscribed:
                store.remove(request.group_id, topic.name, index, outbox)
            answers.append(
                OffsetDeleteResponsePartition(partition_index=index, error_code=int(error))
            )
        response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
    return response


def topic_deleted(store: OffsetStore, name: str, topic_id: bytes, outbox: Outbox) -> None:
    """Delete the offsets of a topic, but not those of a newer topic with the same name."""
    for group_id, partition, offset in store.of_topic(name):
        if no_topic_id(offset.topic_id) or offset.topic_id == topic_id:
            store.remove(group_id, name, partition, outbox)
