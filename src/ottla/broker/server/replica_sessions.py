"""The fetch sessions of followers: like those of consumers, but made for thousands of partitions.

Partitions notify a session of changes, and a fetch looks only at the partitions that changed. A
fetch that finds nothing waits, and costs nothing until the next append. So the cost of a fetch
depends on how much happened, not on how many partitions are followed.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.protocol.errors import ErrorCode
from ottla.protocol.fetch_sessions import INITIAL_EPOCH, new_session_id, next_epoch

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.protocol.messages.fetch import PartitionData

SESSIONS_MAX: Final = 1_000
"""Many more than there are followers and lanes; the least recently used session is closed."""
UNTOLD: Final = -1

Key = tuple[bytes, int]
"""(topic id, partition)"""


class WaitingFetch(Protocol):
    def wake(self) -> None:
        """Something is new: check whether it is enough."""
        ...

    def hurry(self) -> None:
        """Answer now with what is there."""
        ...

    def overtaken(self) -> None:
        """The follower has started another fetch in the same session, so it has given up this
        one."""
        ...


class FollowedPartition:
    """A partition of a session: the follower's position, and what it was last told."""

    __slots__ = (
        "behind",
        "bytes_max",
        "is_news",
        "is_unread",
        "key",
        "last_epoch",
        "leader_epoch",
        "log_start_offset",
        "moved",
        "offset",
        "session",
        "throttled",
        "told_high_watermark",
        "told_log_start",
    )

    def __init__(self, session: ReplicaSession, key: Key) -> None:
        self.session = session
        self.key = key
        self.is_news = False
        self.is_unread = True
        """True if something happened since a fetch last looked at it. A fetch may commit records,
        which makes their producers send more: these may append while the fetch is being
        answered."""
        self.moved = True
        self.behind = False
        """True if there are records that it was not sent, because the response was full or it is
        throttled."""
        self.throttled = False
        """True if its bytes count towards the leader's replication throttle."""
        self.told_high_watermark = self.told_log_start = UNTOLD

    def update(self, wanted: Any) -> None:
        self.offset: int = wanted.fetch_offset
        self.bytes_max: int = wanted.partition_max_bytes
        self.leader_epoch: int = wanted.current_leader_epoch
        self.last_epoch: int = wanted.last_fetched_epoch
        self.log_start_offset: int = wanted.log_start_offset
        self.moved = True
        """True if the position has changed and the partition must be told."""

    def has_news(self, answer: PartitionData) -> bool:
        return bool(
            answer.error_code
            or answer.records
            or answer.diverging_epoch.end_offset >= 0
            or answer.high_watermark != self.told_high_watermark
            or answer.log_start_offset != self.told_log_start
        )

    def told(self, answer: PartitionData) -> None:
        self.told_high_watermark = answer.high_watermark
        self.told_log_start = answer.log_start_offset

    # Called by the partition.

    def appended(self, partition: Partition, offset: int) -> None:
        session = self.session
        leading = partition.leading
        if leading is not None:
            follower = leading.followers.get(session.follower_id)
            if follower is not None and follower.end_offset == offset:
                follower.was_at_end(session.fetched_ms)
        self._look_at_next()
        if session.waiting is not None:
            session.waiting.wake()

    def marked(self, partition: Partition) -> None:
        self._look_at_next()
        if self.session.eager and self.session.waiting is not None:
            self.session.waiting.wake()

    def moved_start(self, partition: Partition) -> None:
        self.marked(partition)
        if self.session.waiting is not None:
            self.session.waiting.hurry()

    def replaced(self) -> None:
        """A fetch of another session has taken over this partition. If that was a late request and
        this session is still in use, its next fetch takes the partition back. This wakes no waiting
        fetch, or two sessions would wake each other for ever."""
        self.moved = True
        self._look_at_next()

    def disturbed(self, partition: Partition) -> None:
        self.moved = True
        self._look_at_next()
        if self.session.waiting is not None:
            self.session.waiting.wake()

    def _look_at_next(self) -> None:
        self.is_unread = True
        if not self.is_news:
            self.is_news = True
            self.session.news[self] = None


class ReplicaSession:
    """The partitions that one follower replicates over one connection."""

    __slots__ = (
        "broker_epoch",
        "eager",
        "epoch",
        "fetched_ms",
        "follower_id",
        "id",
        "news",
        "partitions",
        "waiting",
    )

    def __init__(self, session_id: int, follower_id: int, broker_epoch: int) -> None:
        self.id = session_id
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.follower_id = follower_id
        self.broker_epoch = broker_epoch
        self.fetched_ms = 0
        """The time of the last fetch."""
        self.eager = False
        """True if followers serve consumers: they must then learn of the high watermark as soon as
        it moves."""
        self.partitions: dict[Key, FollowedPartition] = {}
        self.news: dict[FollowedPartition, None] = {}
        """The partitions that the next fetch looks at, in this order. Those that got no turn come
        first."""
        self.waiting: WaitingFetch | None = None

    def update(self, topics: Iterable[Any]) -> None:
        """Take partitions that are new to the session, or whose position has changed."""
        for topic in topics:
            for wanted in topic.partitions:
                key = (topic.topic_id, wanted.partition)
                known = self.partitions.get(key)
                if known is None:
                    known = self.partitions[key] = FollowedPartition(self, key)
                known.update(wanted)
                if not known.is_news:
                    known.is_news = True
                    self.news[known] = None

    def take_epoch(self, broker_epoch: int) -> None:
        """Take the broker epoch of a fetch. If the follower has registered again, its leader must
        learn its position in the new epoch, or it could not join an ISR."""
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            for known in self.partitions.values():
                known.moved = known.is_news = True
                self.news[known] = None

    def forget(self, topics: Iterable[Any]) -> list[FollowedPartition]:
        gone = []
        for topic in topics:
            for index in topic.partitions:
                known = self.partitions.pop((topic.topic_id, index), None)
                if known is not None:
                    self.news.pop(known, None)
                    gone.append(known)
        return gone

    def settled(self, partition: FollowedPartition) -> None:
        """Remove a partition from the news: the follower has been told everything there was."""
        if not partition.is_unread:
            partition.is_news = False
            self.news.pop(partition, None)

    @property
    def has_unread(self) -> bool:
        return any(partition.is_unread for partition in self.news)


class ReplicaSessionCache:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._sessions: dict[int, ReplicaSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, follower_id: int, broker_epoch: int) -> ReplicaSession:
        for session in list(self._sessions.values()):
            if session.follower_id == follower_id and session.broker_epoch < broker_epoch:
                self.close(session.id)  # from an earlier broker epoch
        if len(self._sessions) >= SESSIONS_MAX:
            self.close(next(iter(self._sessions)))
        session_id = new_session_id(self._random, self._sessions)
        created = self._sessions[session_id] = ReplicaSession(session_id, follower_id, broker_epoch)
        return created

    def close(self, session_id: int) -> None:
        """End a session and its waiting fetch, whose position is no longer valid."""
        session = self._sessions.pop(session_id, None)
        if session is not None and session.waiting is not None:
            session.waiting.overtaken()

    def resume(self, session_id: int, epoch: int, follower_id: int) -> ReplicaSession | ErrorCode:
        """Return the session of an incremental request with its epoch advanced, or the error."""
        session = self._sessions.get(session_id)
        if session is None or session.follower_id != follower_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch = next_epoch(epoch)
        del self._sessions[session_id]
        self._sessions[session_id] = session
        if session.waiting is not None:
            session.waiting.overtaken()
        return session
