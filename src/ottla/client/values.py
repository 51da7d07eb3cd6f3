"""Plain values that producers, consumers and admins share."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Generic, NamedTuple, TypeVar

Headers = tuple[tuple[str, bytes | None], ...]
"""In order; a name may occur more than once."""

K = TypeVar("K")
V = TypeVar("V")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TimestampType(IntEnum):
    """Whether the producer set the timestamp of a record, or the broker when it stored it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class OffsetAndMetadata(NamedTuple):
    """A committed offset: that of the next record to read, with a note for people."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class RecordMetadata(NamedTuple):
    """The place of a delivered record. `offset` is -1 if it was not acknowledged (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """The producer's timestamp, or the broker's if the topic has LogAppendTime."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """A record as an application gets it; a None value is a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    """A `TimestampType`, as a plain number."""
    key: K
    value: V
    headers: Headers
    leader_epoch: int
    """The epoch of the leader that stored it; -1 if it is unknown."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class GroupMetadata(NamedTuple):
    """A consumer's identity in its group, which a transaction needs to commit its offsets."""

    group_id: str
    generation_id: int = -1
    """The generation or, in the new protocol, the member epoch."""
    member_id: str = ""
    group_instance_id: str | None = None


AnyRecord = ConsumerRecord[Any, Any]
