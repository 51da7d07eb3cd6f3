"""The offsets that a group has committed: read, set and removed from outside the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ottla.client.admin.group_values import Committed, GroupActive, GroupMissing
from ottla.client.network.cluster import Cluster
from ottla.client.network.connection import Connection
from ottla.client.network.coordinators import Answers, ask_coordinators, error_of, value_of
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
Outcome = dict[TopicPartition, KafkaError | None]

NAMES_UNTIL = 9
"""Later versions name topics by id, which a deleted topic with offsets left no longer has."""
SEVERAL_GROUPS_FROM = 8
NONE_COMMITTED = -1


class GroupOffsets:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def committed(self, group_id: str) -> dict[TopicPartition, Committed]:
        """All that the group has committed; empty for one that is not there."""
        return value_of(await self.committed_by([group_id]), group_id)

    async def committed_by(
        self, group_ids: Iterable[str]
    ) -> Answers[dict[TopicPartition, Committed]]:
        return await ask_coordinators(self._cluster, group_ids, _fetch)

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> Outcome:
        """Set offsets as nobody of the group; `GroupActive` if it has members."""
        from ottla.protocol.messages.offset_commit import (
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
        )

        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=""
                    )
                    for index, offset in parts.items()
                ],
            )
            for topic, parts in by_topic(offsets).items()
        ]

        async def ask(connection: Connection, _node: int, _own: list[str]) -> Answers[Outcome]:
            request = OffsetCommitRequest(group_id=group_id, topics=topics)
            version = min(connection.version_of(request), NAMES_UNTIL)
            response = await connection.request(request, version=version)
            return {group_id: _for_all_or_each(_outcome(response.topics))}

        answers = await ask_coordinators(self._cluster, [group_id], ask)
        outcome = value_of(answers, group_id)
        if any(error and error.code in _MEMBERS_ONLY for error in outcome.values()):
            raise GroupActive(group_id)
        return outcome

    async def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> Outcome:
        """Forget offsets. A live group keeps those of the topics that it subscribes to."""
        from ottla.protocol.messages.offset_delete import (
            OffsetDeleteRequest,
            OffsetDeleteRequestPartition,
            OffsetDeleteRequestTopic,
        )

        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in parts],
            )
            for topic, parts in by_topic(dict.fromkeys(partitions, 0)).items()
        ]

        async def ask(connection: Connection, _node: int, _own: list[str]) -> Answers[Outcome]:
            response = await connection.request(
                OffsetDeleteRequest(group_id=group_id, topics=topics)
            )
            return {group_id: error_of(response.error_code) or _outcome(response.topics)}

        answer = (await ask_coordinators(self._cluster, [group_id], ask))[group_id]
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


def by_topic(values: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    topics: dict[str, dict[int, T]] = {}
    for (topic, index), value in sorted(values.items(), key=lambda item: item[0]):
        topics.setdefault(topic, {})[index] = value
    return topics


def _outcome(topics: Iterable[Any]) -> Outcome:
    return {
        TopicPartition(topic.name, partition.partition_index): error_of(partition.error_code)
        for topic in topics
        for partition in topic.partitions
    }


def _for_all_or_each(outcome: Outcome) -> Outcome | KafkaError:
    """A commit has no error of its own: one of the coordinator is repeated for each partition."""
    for error in outcome.values():
        if error is not None and error.code in _OF_THE_COORDINATOR:
            return error
    return outcome


async def _fetch(
    connection: Connection, _node: int, group_ids: list[str]
) -> Answers[dict[TopicPartition, Committed]]:
    from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

    version = min(connection.version_of(OffsetFetchRequest), NAMES_UNTIL)
    if version >= SEVERAL_GROUPS_FROM:
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in group_ids]
        response = await connection.request(OffsetFetchRequest(groups=groups), version=version)
        return {one.group_id: _committed(one) for one in response.groups}
    answers: Answers[dict[TopicPartition, Committed]] = {}
    for name in group_ids:
        request = OffsetFetchRequest(group_id=name, topics=None)
        answers[name] = _committed(await connection.request(request, version=version))
    return answers


def _committed(answer: Any) -> dict[TopicPartition, Committed] | KafkaError:
    if error := error_of(answer.error_code):
        return error
    found: dict[TopicPartition, Committed] = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code:
                return KafkaError(ErrorCode.of(partition.error_code))
            if partition.committed_offset != NONE_COMMITTED:
                found[TopicPartition(topic.name, partition.partition_index)] = Committed(
                    partition.committed_offset,
                    partition.committed_leader_epoch
                    if partition.committed_leader_epoch >= 0
                    else None,
                    partition.metadata or "",
                )
    return found
