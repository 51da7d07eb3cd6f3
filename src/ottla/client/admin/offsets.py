"""Admin calls for the records of partitions: look up offsets, and delete the oldest records."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

from ottla.client.admin.link import AdminLink
from ottla.client.admin.partitions import by_topic
from ottla.client.network.leaders import Answers, AskLeader, ask_leaders
from ottla.client.values import OffsetAndTimestamp, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.client.network.cluster import Cluster

ISOLATION_FROM = 2
TIMEOUT_FROM = 10

IsolationLevel = Literal["read_uncommitted", "read_committed"]


class OffsetSpec(IntEnum):
    """Special positions in a partition; any number from 0 on is a timestamp in ms instead."""

    LATEST = -1
    """The offset after the last record."""
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """The record with the latest timestamp."""
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


class OffsetAdmin:
    _link: AdminLink

    async def list_offsets(
        self,
        at: Mapping[TopicPartition, int],
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        """Return each partition's offset at an `OffsetSpec`, or its first at a timestamp in ms.

        An offset of -1 means that no record is that late. With read_committed, LATEST is the last
        stable offset.

        >>> await admin.list_offsets({TopicPartition("payments", 0): OffsetSpec.LATEST})
        """
        return await find_offsets(self._link.cluster, at, isolation_level)

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete the records before an offset (-1: all), and return the new first offsets.

        >>> await admin.delete_records({TopicPartition("payments", 0): 1_000})
        """
        cluster = self._link.cluster

        async def ask(node_id: int, own: list[TopicPartition]) -> Answers[int]:
            connection = await cluster.broker(node_id)
            cuts = {one: before[one] for one in own}
            response = await connection.request(_deletion(cuts, cluster.request_timeout_ms))
            return {
                (one := TopicPartition(topic.name, found.partition_index)): _error(one, found)
                or found.low_watermark
                for topic in response.topics
                for found in topic.partitions
            }

        return await ask_leaders(cluster, before, ask)


async def find_offsets(
    cluster: Cluster,
    at: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel = "read_uncommitted",
) -> Answers[OffsetAndTimestamp]:
    return await ask_leaders(cluster, at, offset_question(cluster, at, isolation_level))


def offset_question(
    cluster: Cluster, at: Mapping[TopicPartition, int], isolation_level: IsolationLevel
) -> AskLeader[OffsetAndTimestamp]:
    """Return the function that asks a leader for the offsets of its partitions."""

    async def ask(node_id: int, own: list[TopicPartition]) -> Answers[OffsetAndTimestamp]:
        from ottla.protocol.messages.list_offsets import ListOffsetsRequest

        connection = await cluster.broker(node_id)
        request = ListOffsetsRequest(
            replica_id=-1, topics=_questions({one: at[one] for one in own})
        )
        if (version := connection.version_of(request)) >= ISOLATION_FROM:
            request.isolation_level = int(isolation_level == "read_committed")
        if version >= TIMEOUT_FROM:
            request.timeout_ms = cluster.request_timeout_ms
        response = await connection.request(request, version=version)
        return {
            (one := TopicPartition(topic.name, found.partition_index)): _error(one, found)
            or OffsetAndTimestamp(found.offset, found.timestamp, found.leader_epoch)
            for topic in response.topics
            for found in topic.partitions
        }

    return ask


def _questions(at: Mapping[TopicPartition, int]) -> list[Any]:
    from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic

    return [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(partition_index=index, timestamp=int(timestamp))
                for index, timestamp in parts.items()
            ],
        )
        for topic, parts in by_topic(at).items()
    ]


def _deletion(before: Mapping[TopicPartition, int], timeout_ms: int) -> Any:
    from ottla.protocol.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

    topics = [
        DeleteRecordsTopic(
            name=topic,
            partitions=[
                DeleteRecordsPartition(partition_index=index, offset=offset)
                for index, offset in parts.items()
            ],
        )
        for topic, parts in by_topic(before).items()
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def _error(one: TopicPartition, found: Any) -> KafkaError | None:
    if code := ErrorCode.of(found.error_code):
        return KafkaError(code, f"{one}: {code.message}")
    return None
