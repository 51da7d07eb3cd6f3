"""Asks the leaders of many partitions, each once for all partitions it leads.

If one partition fails, the others still get their results: its `KafkaError` is returned as its
result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from ottla.client.errors import ClientError
from ottla.client.network.cluster import Cluster
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
Answers = dict[TopicPartition, T | KafkaError]
AskLeader = Callable[[int, list[TopicPartition]], Awaitable[Answers[T]]]
"""From (node id, partitions that it leads) to the result for each."""

PATIENCE_MS = 3_000
"""How long to wait for changing leaders: an election takes less."""


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
    # A deleted topic does not come back: committed offsets may outlive it for a while.
    return answer.code.retriable and answer.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _round(
    cluster: Cluster, partitions: list[TopicPartition], ask: AskLeader[T]
) -> Answers[T]:
    names = sorted({one.topic for one in partitions})
    await cluster.retrying(lambda: cluster.refresh(names))
    return await ask_known_leaders(cluster, partitions, ask)


async def ask_known_leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition], ask: AskLeader[T]
) -> Answers[T]:
    """Ask once, at the currently known leaders."""
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
    """Return all values, or raise the first error."""
    values: dict[TopicPartition, T] = {}
    for one, answer in answers.items():
        if isinstance(answer, KafkaError):
            raise answer
        values[one] = answer
    return values
