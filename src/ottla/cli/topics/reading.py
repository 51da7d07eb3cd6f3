"""Reads partitions of a topic from given offsets on, each to its end if it has one.

A person at a terminal needs something other than an application: if retention has removed the next
offset, reading goes on at the start of the log; and an unreachable cluster or a deleted topic is an
error after a while instead of endless silence.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from math import ceil, inf
from typing import TypeVar, Unpack

from ottla.client.consumer.consumer import Consumer
from ottla.client.errors import OffsetOutOfRange, TopicMissing
from ottla.client.network.cluster import Cluster
from ottla.client.settings.consumer import ConsumerOptions
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
Take = Callable[[Consumer, int], Awaitable[T]]
"""Returns what a consumer has, or what arrives within this many ms."""

FOLLOWING_WAIT_MS = 1_000
ENDING_WAIT_MS = 50
"""The end may be passed without a record: after markers, or what compaction removed."""


async def read_topic(
    cluster: Cluster,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int] | None,
    take: Take[T],
    idle: IdleLimit | None = None,
    **options: Unpack[ConsumerOptions],
) -> AsyncGenerator[T, None]:
    """Yield what `take` returns, again and again, until every partition has reached its end, or
    nothing has come for as long as `idle` allows."""
    idle = idle or IdleLimit(cluster.runtime.clock.now, None)
    left = {TopicPartition(topic, index): offset for index, offset in starts.items()}
    health = Health(cluster, topic)
    wait_ms = FOLLOWING_WAIT_MS if ends is None else ENDING_WAIT_MS
    if ends is not None:
        left = {one: offset for one, offset in left.items() if offset < ends[one.partition]}
    options["auto_offset_reset"] = "none"
    options["allow_auto_create_topics"] = False
    async with Consumer.over(cluster, **options) as consumer:
        consumer.assign(left)
        for one, offset in left.items():
            consumer.seek(one, offset)
        idle.restart()
        while consumer.assignment():
            try:
                found = await take(consumer, idle.shorten_ms(wait_ms))
            except OffsetOutOfRange as error:
                await _follow_retention(consumer, error)
                continue
            if found:
                yield found
                idle.restart()
            elif idle.is_over():
                health.raise_failure()
                return
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


class IdleLimit:
    """How long a reader waits for the next record before it ends. None: for ever."""

    def __init__(self, now: Callable[[], float], limit_ms: int | None) -> None:
        self._now = now
        self._limit_s = inf if limit_ms is None else limit_ms / 1000
        self._since = now()
        self.was_reached = False

    def restart(self) -> None:
        """Call it when reading begins, and after records were handled."""
        self._since = self._now()

    def is_over(self) -> bool:
        self.was_reached = self._left_s() <= 0
        return self.was_reached

    def shorten_ms(self, wait_ms: int) -> int:
        """Return `wait_ms`, or what is left if that is less."""
        return max(0, ceil(min(self._left_s() * 1000, wait_ms)))

    def _left_s(self) -> float:
        return self._since + self._limit_s - self._now()


class Health:
    """Raises if the cluster has not answered for as long as the command may wait."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._failing_since: float | None = None

    def check(self) -> None:
        self._raise_if_missing()
        failure = self._cluster.metadata.failure
        now = self._cluster.runtime.clock.now()
        if failure is None:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since > self._cluster.retry_within_ms / 1000:
            raise failure

    def raise_failure(self) -> None:
        """Raise what is wrong at present: the command is about to end for want of records."""
        self._raise_if_missing()
        if self._cluster.metadata.failure is not None:
            raise self._cluster.metadata.failure

    def _raise_if_missing(self) -> None:
        topic = self._cluster.view.topics.get(self._topic)
        if topic is not None and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise TopicMissing(self._topic)
