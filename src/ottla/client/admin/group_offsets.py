"""Admin calls for a group's committed offsets: read, set and delete them from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client.admin.link import AdminLink
from ottla.client.admin.partitions import Outcome, by_topic, indexes_by_topic
from ottla.client.errors import GroupActive, GroupMissing
from ottla.client.network.cluster import Cluster
from ottla.client.network.coordinators import Answers, ask_coordinators, error_of, value_of
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError

Committed = dict[TopicPartition, OffsetAndMetadata]

NAMES_UNTIL = 9
"""Later versions name topics by id, which is gone for a deleted topic that still has offsets."""
STABLE_FROM = 7
SEVERAL_GROUPS_FROM = 8
NONE_COMMITTED = -1


class GroupOffsetAdmin:
    _link: AdminLink

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets the group has committed, for these partitions or all; empty if the
        group does not exist. With `stable`, wait for transactions that may still commit offsets."""
        found = await committed_by(self._link.cluster, [group_id], partitions, stable=stable)
        return value_of(found, group_id)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set the offsets from which a group continues. Raises `GroupActive` if it has members.

        >>> await admin.alter_group_offsets("ledger", {TopicPartition("payments", 0): 1_000})
        """
        topics = _commits(offsets)

        async def ask(connection: Connection, _node: int, _own: list[str]) -> Answers[Outcome]:
            from ottla.protocol.messages.offset_commit import OffsetCommitRequest

            request = OffsetCommitRequest(group_id=group_id, topics=topics)
            version = min(connection.version_of(request), NAMES_UNTIL)
            response = await connection.request(request, version=version)
            return {group_id: _for_all_or_each(_outcome(response.topics))}

        outcome = value_of(await ask_coordinators(self._link.cluster, [group_id], ask), group_id)
        if any(error and error.code in _MEMBERS_ONLY for error in outcome.values()):
            raise GroupActive(group_id)
        return outcome

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete committed offsets. An active group keeps those of topics it subscribes to."""
        from ottla.protocol.messages.offset_delete import (
            OffsetDeleteRequest,
            OffsetDeleteRequestPartition,
            OffsetDeleteRequestTopic,
        )

        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for topic, indexes in indexes_by_topic(partitions).items()
        ]

        async def ask(connection: Connection, _node: int, _own: list[str]) -> Answers[Outcome]:
            response = await connection.request(
                OffsetDeleteRequest(group_id=group_id, topics=topics)
            )
            return {group_id: error_of(response.error_code) or _outcome(response.topics)}

        answer = (await ask_coordinators(self._link.cluster, [group_id], ask))[group_id]
        if not isinstance(answer, KafkaError):
            return answer
        if answer.code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise GroupMissing(group_id)
        if answer.code is ErrorCode.NON_EMPTY_GROUP:
            raise GroupActive(group_id)
        raise answer


_MEMBERS_ONLY = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
_OF_THE_COORDINATOR = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def _commits(offsets: Mapping[TopicPartition, OffsetAndMetadata | int]) -> list[Any]:
    from ottla.protocol.messages.offset_commit import (
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    complete = {
        one: OffsetAndMetadata(value) if isinstance(value, int) else value
        for one, value in offsets.items()
    }
    return [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=value.offset,
                    committed_leader_epoch=value.leader_epoch,
                    committed_metadata=value.metadata,
                )
                for index, value in parts.items()
            ],
        )
        for topic, parts in by_topic(complete).items()
    ]


def _outcome(topics: Iterable[Any]) -> Outcome:
    return {
        TopicPartition(topic.name, partition.partition_index): error_of(partition.error_code)
        for topic in topics
        for partition in topic.partitions
    }


def _for_all_or_each(outcome: Outcome) -> Outcome | KafkaError:
    """Return one error for the whole commit if the coordinator refused it: the response has no
    top-level error and repeats the coordinator's error for each partition."""
    for error in outcome.values():
        if error is not None and error.code in _OF_THE_COORDINATOR:
            return error
    return outcome


async def committed_by(
    cluster: Cluster,
    group_ids: Iterable[str],
    partitions: Iterable[TopicPartition] | None = None,
    *,
    stable: bool = False,
) -> Answers[Committed]:
    """Return the committed offsets of several groups, with one round per coordinator."""
    wanted = None if partitions is None else indexes_by_topic(partitions)

    async def ask(connection: Connection, _node: int, own: list[str]) -> Answers[Committed]:
        return await _fetch(connection, own, wanted, stable=stable)

    return await ask_coordinators(cluster, group_ids, ask)


async def _fetch(
    connection: Connection,
    group_ids: list[str],
    wanted: Mapping[str, list[int]] | None,
    *,
    stable: bool,
) -> Answers[Committed]:
    from ottla.protocol.messages import offset_fetch

    version = min(connection.version_of(offset_fetch.OffsetFetchRequest), NAMES_UNTIL)
    stable &= version >= STABLE_FROM
    if version >= SEVERAL_GROUPS_FROM:
        topics = _fetched_topics(offset_fetch.OffsetFetchRequestTopics, wanted)
        groups = [
            offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=topics) for name in group_ids
        ]
        several = offset_fetch.OffsetFetchRequest(groups=groups, require_stable=stable)
        response = await connection.request(several, version=version)
        return {one.group_id: _committed(one) for one in response.groups}
    topics = _fetched_topics(offset_fetch.OffsetFetchRequestTopic, wanted)
    answers: Answers[Committed] = {}
    for name in group_ids:
        one = offset_fetch.OffsetFetchRequest(group_id=name, topics=topics, require_stable=stable)
        answers[name] = _committed(await connection.request(one, version=version))
    return answers


def _fetched_topics(kind: Any, wanted: Mapping[str, list[int]] | None) -> list[Any] | None:
    if wanted is None:
        return None
    return [kind(name=name, partition_indexes=indexes) for name, indexes in wanted.items()]


def _committed(answer: Any) -> Committed | KafkaError:
    if error := error_of(answer.error_code):
        return error
    found: Committed = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code:
                return KafkaError(ErrorCode.of(partition.error_code))
            if partition.committed_offset != NONE_COMMITTED:
                found[TopicPartition(topic.name, partition.partition_index)] = OffsetAndMetadata(
                    partition.committed_offset,
                    partition.metadata or "",
                    partition.committed_leader_epoch,
                )
    return found
