"""Reading partitions of a topic from given offsets on, each to its end if it has one.

What a person at a terminal wants differs from what an application wants: where retention has
removed the offset that is next, reading goes on at the log's start; and a cluster that cannot be
reached, or a topic that is gone, is an error after a while instead of a silence without end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TypeVar, Unpack

from ottla.client.consumer.consumer import Consumer
from ottla.client.errors import OffsetOutOfRange, TopicMissing
from ottla.client.network.cluster import Cluster
from ottla.client.settings.consumer import ConsumerOptions
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
Take = Callable[[Consumer, int], Awaitable[T]]
"""What a consumer has, or what it gets within so many ms."""

FOLLOWING_WAIT_MS = 1_000
ENDING_WAIT_MS = 50
"""The end may be passed without a record to be seen: behind markers, and what compaction left."""


async def read_topic(
    cluster: Cluster,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int] | None,
    take: Take[T],
    **options: Unpack[ConsumerOptions],
) -> AsyncGenerator[T, None]:
    """What `take` gives, again and again, until every partition has reached its end."""
    left = {TopicPartition(topic, index): offset for index, offset in starts.items()}
    health = _Health(cluster, topic)
    wait_ms = FOLLOWING_WAIT_MS if ends is None else ENDING_WAIT_MS
    if ends is not None:
        left = {one: offset for one, offset in left.items() if offset < ends[one.partition]}
    options["auto_offset_reset"] = "none"
    options["allow_auto_create_topics"] = False
    async with Consumer.over(cluster, **options) as consumer:
        consumer.assign(left)
        for one, offset in left.items():
            consumer.seek(one, offset)
        while consumer.assignment():
            try:
                found = await take(consumer, wait_ms)
            except OffsetOutOfRange as error:
                await _follow_retention(consumer, error)
                continue
            if found:
                yield found
            else:
                health.check()
            if ends is not None:
                await _leave_finished(consumer, ends)


async def _leave_finished(consumer: Consumer, ends: Mapping[int, int]) -> None:
    assigned = consumer.assignment()
    unfinished = [one for one in assigned if await consumer.position(one) < ends[one.partition]]
    if len(unfinished) < len(assigned):
        consumer.assign(unfinished)


async def _follow_retention(consumer: Consumer, error: OffsetOutOfRange) -> None:
    one = error.topic_partition
    start = (await consumer.beginning_offsets([one]))[one]
    if error.offset >= start:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{one} holds no offset {error.offset}; see `ottla offsets {one.topic}`",
        )
    consumer.seek(one, start)


class _Health:
    """Raises when the cluster has not answered for as long as the command may wait."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._failing_since: float | None = None

    def check(self) -> None:
        topic = self._cluster.view.topics.get(self._topic)
        if topic is not None and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise TopicMissing(self._topic)
        failure = self._cluster.metadata_failure
        now = self._cluster.runtime.clock.now()
        if failure is None:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since > self._cluster.retry_within_ms / 1000:
            raise failure
