"""OffsetDelete, and offsets whose topic is deleted."""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.offsets.store import OffsetStore, no_topic_id
from ottla.coordinator.outbox import Outbox
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
    """Forget the named offsets, but for topics that the group is reading."""
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
    """Forget what was committed for it; what is of a newer topic with the same name stays."""
    for group_id, partition, offset in store.of_topic(name):
        if no_topic_id(offset.topic_id) or offset.topic_id == topic_id:
            store.remove(group_id, name, partition, outbox)
