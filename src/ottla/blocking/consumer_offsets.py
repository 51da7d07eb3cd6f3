"""The part of a blocking consumer's face that deals with offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ottla.blocking.client import BlockingClient
from ottla.client.consumer.consumer import Consumer
from ottla.client.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

T = TypeVar("T")


class ConsumerOffsets(BlockingClient):
    _consumer: Consumer

    def _do(self, work: Callable[[], T]) -> T:
        # What is to be read may be said before there is a loop.
        return work() if self._thread is None else super()._do(work)

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        return self._call(lambda: self._consumer.position(partition, timeout_ms))

    def lag(self) -> dict[TopicPartition, int]:
        return self._do(self._consumer.lag)

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        self._do(lambda: self._consumer.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._do(lambda: self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._do(lambda: self._consumer.seek_to_end(*partitions))

    def seek_to_time(self, times: Mapping[TopicPartition, int]) -> None:
        self._do(lambda: self._consumer.seek_to_time(times))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._call(lambda: self._consumer.offsets_for_times(times))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._call(lambda: self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._call(lambda: self._consumer.end_offsets(partitions))

    def partitions_for_topic(self, topic: str) -> frozenset[int]:
        return self._call(lambda: self._consumer.partitions_for_topic(topic))

    def topics(self) -> frozenset[str]:
        return self._call(self._consumer.topics)
