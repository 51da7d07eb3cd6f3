"""Fetch sessions (KIP-227): a reader names its partitions once, then only what changes.

The cache is bounded (`max.incremental.fetch.session.cache.slots`). A reader that gets no session is
served all the same, with full requests. An existing session gives way to a new one when it has not
been used for `min.incremental.fetch.session.eviction.ms`, or when it is that old and smaller.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from ottla.protocol.errors import ErrorCode

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 0x7FFFFFFF

TopicKey = str | bytes
"""A topic by name (Fetch up to version 12) or by id (from 13 on)."""


class FetchPartition:
    """What a reader wants of one partition, and what it was last told about it."""

    __slots__ = (
        "bytes_max",
        "index",
        "leader_epoch",
        "offset",
        "told_error",
        "told_high_watermark",
        "told_log_start",
        "topic",
    )

    def __init__(self, topic: TopicKey, wanted: Any) -> None:
        self.topic = topic
        self.index: int = wanted.partition
        self.told_high_watermark = -1
        self.told_log_start = -1
        self.told_error = False
        self.update(wanted)

    def update(self, wanted: Any) -> None:
        self.offset: int = wanted.fetch_offset
        self.bytes_max: int = wanted.partition_max_bytes
        self.leader_epoch: int = wanted.current_leader_epoch

    def has_news(self, answer: Any) -> bool:
        """Whether an incremental answer must mention this partition; remembers what it says."""
        news = bool(answer.records)
        if answer.error_code:
            # Errors are repeated until they are gone, and their end is news too.
            self.told_error = True
            return True
        if self.told_error:
            self.told_error = False
            news = True
        if answer.high_watermark != self.told_high_watermark:
            self.told_high_watermark = answer.high_watermark
            news = True
        if answer.log_start_offset != self.told_log_start:
            self.told_log_start = answer.log_start_offset
            news = True
        return news or answer.preferred_read_replica >= 0 or answer.diverging_epoch.epoch >= 0


Key = tuple[TopicKey, int]


class FetchSession:
    __slots__ = ("by_topic_id", "created_s", "epoch", "id", "partitions", "used_s")

    def __init__(self, session_id: int, by_topic_id: bool, now_s: float) -> None:
        self.id = session_id
        self.by_topic_id = by_topic_id
        self.epoch = 1
        self.created_s = self.used_s = now_s
        self.partitions: dict[Key, FetchPartition] = {}
        """In the order in which they are read: one that had data goes to the end, so that a busy
        partition cannot starve the others of room in the answer."""

    def update(self, topics: Iterable[Any], forgotten: Iterable[Any]) -> None:
        by_id = self.by_topic_id
        partitions = self.partitions
        for topic in topics:
            topic_key = topic.topic_id if by_id else topic.topic
            for wanted in topic.partitions:
                known = partitions.get((topic_key, wanted.partition))
                if known is None:
                    partitions[topic_key, wanted.partition] = FetchPartition(topic_key, wanted)
                else:
                    known.update(wanted)
        for topic in forgotten:
            topic_key = topic.topic_id if by_id else topic.topic
            for index in topic.partitions:
                partitions.pop((topic_key, index), None)

    def move_to_end(self, partition: FetchPartition) -> None:
        key = (partition.topic, partition.index)
        if self.partitions.pop(key, None) is not None:
            self.partitions[key] = partition


class FetchSessionCache:
    def __init__(self, slots_max: int, eviction_ms: int, random: Random) -> None:
        self._slots_max = slots_max
        self._eviction_s = eviction_ms / 1000
        self._random = random
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, by_topic_id: bool, size: int, now_s: float) -> FetchSession | None:
        if len(self._sessions) >= self._slots_max and not self._evict(size, now_s):
            return None
        session_id = self._random.randrange(1, _EPOCH_MAX)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, _EPOCH_MAX)
        session = self._sessions[session_id] = FetchSession(session_id, by_topic_id, now_s)
        return session

    def _evict(self, size: int, now_s: float) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_s - oldest.used_s > self._eviction_s:
            del self._sessions[oldest.id]
            return True
        settled = [s for s in self._sessions.values() if now_s - s.created_s > self._eviction_s]
        smallest = min(settled, key=lambda s: len(s.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= size:
            return False
        del self._sessions[smallest.id]
        return True

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def resume(
        self, session_id: int, epoch: int, by_topic_id: bool, now_s: float
    ) -> FetchSession | ErrorCode:
        """The session of an incremental request, its epoch advanced; or why there is none."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_topic_id != by_topic_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        session.used_s = now_s
        del self._sessions[session_id]
        self._sessions[session_id] = session
        return session
