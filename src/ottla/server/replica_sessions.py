"""The fetch sessions of followers: like those of consumers, but made for thousands of partitions.

A session is told by its partitions when there is something new in them, and a fetch looks at these
alone; one that finds nothing waits, and costs nothing until the next append. So the work of a
fetch, and of waiting, is a matter of what happened and not of how much is followed.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.protocol.messages.fetch import PartitionData
    from ottla.replication.partition import Partition

SESSIONS_MAX: Final = 1_000
"""Many more than there are followers and lanes; the one unused for longest goes."""
EPOCH_MAX: Final = 0x7FFFFFFF
UNTOLD: Final = -1

Key = tuple[bytes, int]
"""(topic id, partition)"""


class WaitingFetch(Protocol):
    def wake(self) -> None:
        """There is something new: look whether it is enough."""
        ...

    def hurry(self) -> None:
        """Answer now, whatever there is."""
        ...

    def overtaken(self) -> None:
        """The follower has begun another fetch in the same session: it has given up this one."""
        ...


class FollowedPartition:
    """One partition of a session: where the follower is, and what it was last told."""

    __slots__ = (
        "behind",
        "bytes_max",
        "is_news",
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
        self.moved = True
        self.behind = False
        """There are records for it that it got nothing of: for want of room, or throttled."""
        self.throttled = False
        """What it gets counts for the leader's throttle."""
        self.told_high_watermark = self.told_log_start = UNTOLD

    def update(self, wanted: Any) -> None:
        self.offset: int = wanted.fetch_offset
        self.bytes_max: int = wanted.partition_max_bytes
        self.leader_epoch: int = wanted.current_leader_epoch
        self.last_epoch: int = wanted.last_fetched_epoch
        self.log_start_offset: int = wanted.log_start_offset
        self.moved = True
        """To be taken note of by the partition."""

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

    # What the partition tells.

    def appended(self, partition: Partition, offset: int) -> None:
        session = self.session
        leading = partition.leading
        if leading is not None:
            follower = leading.followers.get(session.follower_id)
            if follower is not None and follower.end_offset == offset:
                follower.was_at_end(session.fetched_ms)
        if not self.is_news:
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
        """By a request that was late, if this session is still in use: its next fetch takes the
        partition back. Without waking anybody, or two sessions would wake each other for ever."""
        self.moved = True
        self._look_at_next()

    def disturbed(self, partition: Partition) -> None:
        self.moved = True
        self._look_at_next()
        if self.session.waiting is not None:
            self.session.waiting.wake()

    def _look_at_next(self) -> None:
        if not self.is_news:
            self.is_news = True
            self.session.news[self] = None


class ReplicaSession:
    """What one follower copies over one connection."""

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
        self.epoch = 1
        self.follower_id = follower_id
        self.broker_epoch = broker_epoch
        self.fetched_ms = 0
        """When the last fetch came."""
        self.eager = False
        """Followers serve consumers: they are to know of the high watermark as soon as it moves."""
        self.partitions: dict[Key, FollowedPartition] = {}
        self.news: dict[FollowedPartition, None] = {}
        """To be looked at by the next fetch, in this order: who did not get its turn is first."""
        self.waiting: WaitingFetch | None = None

    def update(self, topics: Iterable[Any]) -> None:
        """Partitions that are new to the session, or have moved."""
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
        """The follower may have registered anew since: its leader has to know where it stands in
        this life, or it could not join an ISR."""
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
        """The follower has been told all that there is to tell."""
        partition.is_news = False
        self.news.pop(partition, None)


class ReplicaSessionCache:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._sessions: dict[int, ReplicaSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, follower_id: int, broker_epoch: int) -> ReplicaSession:
        for session in list(self._sessions.values()):
            if session.follower_id == follower_id and session.broker_epoch < broker_epoch:
                self.close(session.id)  # of an earlier life
        if len(self._sessions) >= SESSIONS_MAX:
            self.close(next(iter(self._sessions)))
        session_id = self._random.randrange(1, EPOCH_MAX)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, EPOCH_MAX)
        created = self._sessions[session_id] = ReplicaSession(session_id, follower_id, broker_epoch)
        return created

    def close(self, session_id: int) -> None:
        """What waits in it must not speak for the follower any more, who is elsewhere by now."""
        session = self._sessions.pop(session_id, None)
        if session is not None and session.waiting is not None:
            session.waiting.overtaken()

    def resume(self, session_id: int, epoch: int, follower_id: int) -> ReplicaSession | ErrorCode:
        """The session of an incremental request, its epoch advanced; or why there is none."""
        session = self._sessions.get(session_id)
        if session is None or session.follower_id != follower_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        del self._sessions[session_id]
        self._sessions[session_id] = session
        if session.waiting is not None:
            session.waiting.overtaken()
        return session
