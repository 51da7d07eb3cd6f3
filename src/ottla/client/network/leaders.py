"""Asking the leaders of many partitions, each once for all it leads, whatever their topics.

A partition that cannot be asked now is no reason to say nothing of the others: its `KafkaError`
stands in the place of its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from ottla.client.admin.values import OffsetAt
from ottla.client.errors import ClientError
from ottla.client.network.cluster import Cluster
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
Answers = dict[TopicPartition, T | KafkaError]
AskLeader = Callable[[int, list[TopicPartition]], Awaitable[Answers[T]]]
"""From (node id, partitions that it leads) to the answer for each."""

PATIENCE_MS = 3_000
"""How long leaders that are just changing are waited for: an election takes less."""


async def ask_leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition], ask: AskLeader[T]
) -> Answers[T]:
    backoff = cluster.backoff(min(PATIENCE_MS, cluster.retry_within_ms))
    answers: Answers[T] = {}
    missing = sorted(set(partitions))
    while missing:
        answers |= await _round(cluster, missing, ask)
        missing = [one for one in missing if _may_pass(answers[one])]
        if missing and not await backoff.pause():
            break
    return {one: answers[one] for one in sorted(answers)}


def _may_pass(answer: object) -> bool:
    if not isinstance(answer, KafkaError):
        return False
    # A topic that is gone stays gone: offsets may outlive it for a while.
    return answer.code.retriable and answer.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _round(
    cluster: Cluster, partitions: list[TopicPartition], ask: AskLeader[T]
) -> Answers[T]:
    names = sorted({one.topic for one in partitions})
    await cluster.retrying(lambda: cluster.refresh(names))
    answers: Answers[T] = {}
    by_node: dict[int, list[TopicPartition]] = {}
    for one in partitions:
        where = _leader(cluster, one)
        if isinstance(where, KafkaError):
            answers[one] = where
        else:
            by_node.setdefault(where, []).append(one)

    async def ask_one(node_id: int, own: list[TopicPartition]) -> Answers[T]:
        try:
            return await ask(node_id, own)
        except KafkaError as error:
            return dict.fromkeys(own, error)
        except ClientError as error:
            return dict.fromkeys(own, KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)))

    for part in await asyncio.gather(*(ask_one(*item) for item in by_node.items())):
        answers |= part
    return answers


def _leader(cluster: Cluster, one: TopicPartition) -> int | KafkaError:
    topic = cluster.view.topics.get(one.topic)
    if topic is None or topic.error_code:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
        return KafkaError(ErrorCode.of(code), f"topic {one.topic!r}: {ErrorCode.of(code).message}")
    if one.partition >= len(topic.partitions):
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {one.topic!r} has no partition {one.partition}",
        )
    leader = topic.partitions[one.partition].leader
    if leader not in cluster.view.brokers:
        return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{one} has no leader now")
    return leader


def all_or_raise(answers: Mapping[TopicPartition, T | KafkaError]) -> dict[TopicPartition, T]:
    """For work that is not to be done by halves."""
    values: dict[TopicPartition, T] = {}
    for one, answer in answers.items():
        if isinstance(answer, KafkaError):
            raise answer
        values[one] = answer
    return values


async def log_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], at: int
) -> Answers[OffsetAt]:
    """The offset at EARLIEST, LATEST or a time in ms, of partitions of any topics."""
    from ottla.protocol.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    async def ask(node_id: int, own: list[TopicPartition]) -> Answers[OffsetAt]:
        topics: dict[str, ListOffsetsTopic] = {}
        for one in own:
            topic = topics.setdefault(one.topic, ListOffsetsTopic(name=one.topic, partitions=[]))
            topic.partitions.append(
                ListOffsetsPartition(partition_index=one.partition, timestamp=at)
            )
        request = ListOffsetsRequest(
            replica_id=-1, topics=list(topics.values()), timeout_ms=cluster.request_timeout_ms
        )
        response = await (await cluster.broker(node_id)).request(request)
        return {
            TopicPartition(topic.name, found.partition_index): _offset_at(topic.name, found)
            for topic in response.topics
            for found in topic.partitions
        }

    return await ask_leaders(cluster, partitions, ask)


def _offset_at(topic: str, found: Any) -> OffsetAt | KafkaError:
    if code := ErrorCode.of(found.error_code):
        return KafkaError(code, f"{topic}-{found.partition_index}: {code.message}")
    return OffsetAt(found.offset, found.timestamp, found.leader_epoch)
