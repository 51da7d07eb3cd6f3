"""Fetch sessions (KIP-227): a reader names all its partitions once, then only changes.

The cache is bounded (`max.incremental.fetch.session.cache.slots`). A reader that gets no session is
still served, with full requests. A new session evicts an existing one that has not been used for
`EVICTION_MS`, or one that is that old and has fewer partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from ottla.protocol.errors import ErrorCode
from ottla.protocol.fetch_sessions import INITIAL_EPOCH, new_session_id, next_epoch

EVICTION_MS: Final = 120_000
"""Kafka's `MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS`, which is a constant there, too."""
SESSION_PARTITIONS_MAX: Final = 20_000
CACHED_PARTITIONS_MAX: Final = 200_000
"""The most partitions of all sessions together: each takes some 200 bytes. Beyond this, readers get
no session and send full requests each time."""

TopicKey = str | bytes
"""A topic by name (Fetch up to version 12) or by id (from 13 on)."""


class FetchPartition:
    """A partition that a reader fetches, and what the reader was last told about it."""

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
        """True if an incremental answer must include this partition. Remembers what it tells."""
        news = bool(answer.records)
        if answer.error_code:
            # Errors are repeated while they last, and their end must be told too.
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
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_s = self.used_s = now_s
        self.partitions: dict[Key, FetchPartition] = {}
        """Partitions in the order in which they are read. A partition that had data goes to the
        end, so that a busy one cannot starve the others of room in the answer."""

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
    def __init__(self, slots_max: int, random: Random, eviction_ms: int = EVICTION_MS) -> None:
        self._slots_max = slots_max
        self._eviction_s = eviction_ms / 1000
        self._random = random
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self._by_connection: dict[int, int] = {}
        self._partition_count = 0

    @property
    def partition_count(self) -> int:
        """Number of partitions of all sessions together."""
        return self._partition_count

    def __len__(self) -> int:
        return len(self._sessions)

    def create(
        self, by_topic_id: bool, size: int, now_s: float, connection_id: int | None = None
    ) -> FetchSession | None:
        """Return a new session, or None if there is no room. It ends with its connection (see
        `forget`)."""
        if len(self._sessions) >= self._slots_max and not self._evict(size, now_s):
            return None
        while self._partition_count + size > CACHED_PARTITIONS_MAX:
            if not self._evict(size, now_s):
                return None
        session_id = new_session_id(self._random, self._sessions)
        session = self._sessions[session_id] = FetchSession(session_id, by_topic_id, now_s)
        # A connection usually has one session. A new one replaces the one before.
        if connection_id is not None:
            before = self._by_connection.get(connection_id)
            if before is not None:
                self.close(before)
            self._by_connection[connection_id] = session_id
        return session

    def forget(self, connection_id: int) -> None:
        """End the session of a closed connection. Kafka would keep it, but only a client that
        reconnects with it could use it; such a client is told to start a new session."""
        session_id = self._by_connection.pop(connection_id, None)
        if session_id is not None:
            self.close(session_id)

    def _evict(self, size: int, now_s: float) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_s - oldest.used_s > self._eviction_s:
            self.close(oldest.id)
            return True
        settled = [s for s in self._sessions.values() if now_s - s.created_s > self._eviction_s]
        smallest = min(settled, key=lambda s: len(s.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= size:
            return False
        self.close(smallest.id)
        return True

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)

    def update(
        self, session: FetchSession, topics: Iterable[Any], forgotten: Iterable[Any]
    ) -> None:
        """Change which partitions a session reads. A cached session is changed only here, so that
        its partitions are counted."""
        before = len(session.partitions)
        session.update(topics, forgotten)
        if self._sessions.get(session.id) is session:
            self._partition_count += len(session.partitions) - before

    def is_too_large(self, session: FetchSession) -> bool:
        """True if the session, or all of them together, has outgrown its bound."""
        too_many = self._partition_count > CACHED_PARTITIONS_MAX
        return too_many or len(session.partitions) > SESSION_PARTITIONS_MAX

    def resume(
        self, session_id: int, epoch: int, by_topic_id: bool, now_s: float
    ) -> FetchSession | ErrorCode:
        """Return the session of an incremental request with its epoch advanced, or the error."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_topic_id != by_topic_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = next_epoch(epoch)
        session.used_s = now_s
        del self._sessions[session_id]
        self._sessions[session_id] = session
        return session
