"""Records, bytes and requests, by topic: what clients sent and got, and what went to followers."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Final

from ottla.protocol.errors import ErrorCode

FAILURES_OF_CLIENTS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
"""Kafka does not count these as failed requests of the broker."""
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class TopicCounts:
    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    if TYPE_CHECKING:
        bytes_in: int
        bytes_out: int
        bytes_rejected: int
        failed_fetches: int
        failed_produces: int
        fetches: int
        messages_in: int
        produces: int
        replication_bytes_out: int

    def add(self, other: TopicCounts) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class TopicFigures:
    """The counts of each topic that exists; those of deleted topics stay in the total."""

    def __init__(self) -> None:
        self.by_topic: dict[str, TopicCounts] = {}
        self._deleted = TopicCounts()

    def of(self, topic: str) -> TopicCounts:
        counts = self.by_topic.get(topic)
        if counts is None:
            counts = self.by_topic[topic] = TopicCounts()
        return counts

    def appended(self, topic: str, size: int, record_count: int) -> None:
        counts = self.of(topic)
        counts.produces += 1
        counts.messages_in += record_count
        counts.bytes_in += size

    def refused(self, topic: str, size: int, error: ErrorCode) -> None:
        counts = self.of(topic)
        counts.produces += 1
        if error in _TOO_LARGE:
            counts.bytes_rejected += size
        if error not in FAILURES_OF_CLIENTS:
            counts.failed_produces += 1

    def read(self, topic: str, size: int, error_code: int) -> None:
        counts = self.of(topic)
        counts.fetches += 1
        counts.bytes_out += size
        if error_code and ErrorCode.of(error_code) not in FAILURES_OF_CLIENTS:
            counts.failed_fetches += 1

    def replicated(self, topic: str, size: int) -> None:
        counts = self.of(topic)
        counts.fetches += 1
        counts.replication_bytes_out += size

    def total(self) -> TopicCounts:
        total = TopicCounts()
        total.add(self._deleted)
        for counts in self.by_topic.values():
            total.add(counts)
        return total

    def keep_only(self, existing: Container[str]) -> None:
        """Forget topics that were deleted, except in the total."""
        for topic in [topic for topic in self.by_topic if topic not in existing]:
            self._deleted.add(self.by_topic.pop(topic))
