"""Builds OffsetCommit and OffsetFetch requests, in the version that the broker supports.

Topics are named by id if both sides can (version 10), so that a topic that was deleted and created
again is not mistaken for the one that was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.client.network.metadata import ClusterView
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.uuids import ZERO_UUID

IDS_FROM = 10
GROUPS_FROM = 8
STABLE_FROM = 7
INSTANCE_FROM = 7

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
PartitionErrors = dict[TopicPartition, ErrorCode]


class MemberIdentity(NamedTuple):
    """The member in whose name a request is sent."""

    generation: int
    """In the new protocol, the member epoch."""
    member_id: str
    instance_id: str | None


NOBODY = MemberIdentity(-1, "", None)
"""A consumer that reads manually assigned partitions, and uses its group only for offsets."""


class TopicNames(NamedTuple):
    """The topic names of one request that names topics by id."""

    by_id: dict[bytes, str]

    @classmethod
    def of(cls, topics: Iterable[str], view: ClusterView) -> TopicNames | None:
        """Return None if the id of any topic is unknown."""
        known = {name: view.topics[name].topic_id for name in topics if name in view.topics}
        by_id = {topic_id: name for name, topic_id in known.items() if topic_id != ZERO_UUID}
        return cls(by_id) if len(by_id) == len(set(topics)) else None

    def name_of(self, topic: Any) -> str:
        return self.by_id.get(topic.topic_id, "")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for one in sorted(partitions):
        found.setdefault(one.topic, []).append(one)
    return found


def commit_request(
    group_id: str,
    member: MemberIdentity,
    offsets: Offsets,
    version: int,
    names: TopicNames | None,
) -> Any:
    from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic

    ids = {} if names is None else {name: topic_id for topic_id, name in names.by_id.items()}
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=ids.get(name, ZERO_UUID),
                partitions=[_commit_partition(one, offsets[one]) for one in own],
            )
            for name, own in by_topic(offsets).items()
        ],
    )
    if version >= INSTANCE_FROM:
        request.group_instance_id = member.instance_id
    return request


def _commit_partition(partition: TopicPartition, at: OffsetAndMetadata) -> Any:
    from ottla.protocol.messages.offset_commit import OffsetCommitRequestPartition

    return OffsetCommitRequestPartition(
        partition_index=partition.partition,
        committed_offset=at.offset,
        committed_leader_epoch=at.leader_epoch,
        committed_metadata=at.metadata,
    )


def commit_errors(response: Any, names: TopicNames | None) -> PartitionErrors:
    return {
        TopicPartition(_name(topic, names), one.partition_index): ErrorCode.of(one.error_code)
        for topic in response.topics
        for one in topic.partitions
        if one.error_code
    }


def fetch_request(
    group_id: str,
    member: MemberIdentity | None,
    partitions: Iterable[TopicPartition],
    version: int,
    names: TopicNames | None,
) -> Any:
    from ottla.protocol.messages import offset_fetch

    topics = {name: [one.partition for one in own] for name, own in by_topic(partitions).items()}
    request = offset_fetch.OffsetFetchRequest(require_stable=version >= STABLE_FROM)
    if version < GROUPS_FROM:
        request.group_id = group_id
        request.topics = [
            offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
        return request
    ids = {} if names is None else {name: topic_id for topic_id, name in names.by_id.items()}
    group = offset_fetch.OffsetFetchRequestGroup(
        group_id=group_id,
        topics=[
            offset_fetch.OffsetFetchRequestTopics(
                name=name, topic_id=ids.get(name, ZERO_UUID), partition_indexes=indexes
            )
            for name, indexes in topics.items()
        ],
    )
    if member is not None:
        group.member_id, group.member_epoch = member.member_id, member.generation
    request.groups = [group]
    return request


class Fetched(NamedTuple):
    """The response to an OffsetFetch request."""

    group_error: ErrorCode
    errors: PartitionErrors
    offsets: dict[TopicPartition, OffsetAndMetadata | None]


def fetched_offsets(response: Any, version: int, names: TopicNames | None) -> Fetched:
    answer = response.groups[0] if version >= GROUPS_FROM else response
    fetched = Fetched(ErrorCode.of(answer.error_code), {}, {})
    for topic in answer.topics:
        for one in topic.partitions:
            partition = TopicPartition(_name(topic, names), one.partition_index)
            if one.error_code:
                fetched.errors[partition] = ErrorCode.of(one.error_code)
            elif one.committed_offset < 0:
                fetched.offsets[partition] = None
            else:
                fetched.offsets[partition] = OffsetAndMetadata(
                    one.committed_offset, one.metadata or "", one.committed_leader_epoch
                )
    return fetched


def _name(topic: Any, names: TopicNames | None) -> str:
    return str(topic.name) if names is None else names.name_of(topic)
