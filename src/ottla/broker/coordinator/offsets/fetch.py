"""OffsetFetch, for one group."""

from __future__ import annotations

from typing import Final

from ottla.broker.coordinator.offsets.store import CommittedOffset, OffsetStore, no_topic_id
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET: Final = -1


def no_offset(partition: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=-1,
        metadata="",
        error_code=int(error),
    )


def no_offsets(request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """Return the answer for a group that has no offsets."""
    return OffsetFetchResponseGroup(
        group_id=request.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[no_offset(index) for index in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ],
    )


def fetch(
    store: OffsetStore, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Return the offsets of the named partitions, or of all. With `require_stable`, offsets that an
    open transaction may still change are answered with an error."""
    group_id = request.group_id
    response = OffsetFetchResponseGroup(group_id=group_id)
    if request.topics is None:
        for name, partitions in store.group(group_id).items():
            answers = [
                _answer(store, group_id, name, index, offset, require_stable)
                for index, offset in partitions.items()
            ]
            response.topics.append(OffsetFetchResponseTopics(name=name, partitions=answers))
        return response
    offsets = store.group(group_id)
    for topic in request.topics:
        found = offsets.get(topic.name, {})
        answers = []
        for index in topic.partition_indexes:
            offset = found.get(index)
            if offset is not None and _of_another_topic(offset, topic.topic_id):
                offset = None
            answers.append(_answer(store, group_id, topic.name, index, offset, require_stable))
        response.topics.append(
            OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=answers)
        )
    return response


def _of_another_topic(offset: CommittedOffset, topic_id: bytes) -> bool:
    """True if it was committed for a deleted topic of the same name."""
    return not (
        no_topic_id(topic_id) or no_topic_id(offset.topic_id) or offset.topic_id == topic_id
    )


def _answer(
    store: OffsetStore,
    group_id: str,
    topic: str,
    partition: int,
    offset: CommittedOffset | None,
    require_stable: bool,
) -> OffsetFetchResponsePartitions:
    if require_stable and store.is_pending(group_id, topic, partition):
        return no_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if offset is None:
        return no_offset(partition)
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )
