"""Fetch sessions (KIP-227): a broker remembers what it was asked for, and is told the changes.

    full request (epoch 0) ──session id──> 1, 2, 3, ... each with the changes since the one before
          ^                                  │
          └──any error, lost connection──────┘

Without a session id in the answer, every request is a full one. From version 13 on topics go by
id; a session cannot change between ids and names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

NO_SESSION = 0
FIRST_EPOCH = 0
LAST_EPOCH = -1
EPOCH_MAX = (1 << 31) - 1


class Asked(NamedTuple):
    """What a broker is asked for a partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    bytes_max: int
    is_leader: bool
    """In that epoch the broker leads; else it is a follower, which may be behind."""


class FetchSession:
    """The session with one broker."""

    __slots__ = ("_asked", "_by_id", "_epoch", "_id")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._asked: dict[TopicPartition, Asked] = {}
        self._by_id = False

    @property
    def is_open(self) -> bool:
        return self._id != NO_SESSION

    def fill(
        self, request: FetchRequest, wanted: Mapping[TopicPartition, Asked], *, by_id: bool
    ) -> None:
        """Write into `request` what the broker does not know yet of all that is wanted."""
        if by_id is not self._by_id:
            self.renew()
            self._by_id = by_id
        request.session_id, request.session_epoch = self._id, self._epoch
        if self._epoch == FIRST_EPOCH:
            request.topics = _topics(wanted)
        else:
            before = self._asked
            gone = {
                one: asked
                for one, asked in before.items()
                if one not in wanted or wanted[one].topic_id != asked.topic_id
            }
            changed = {one: asked for one, asked in wanted.items() if before.get(one) != asked}
            request.topics = _topics(changed)
            request.forgotten_topics_data = _forgotten(gone)
        self._asked = dict(wanted)

    def answered(self, error_code: int, session_id: int) -> bool:
        """Whether the answer is one to the session; if not, the next request begins a new one."""
        if error_code:
            if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self.renew()
            return False
        self._id = session_id
        if session_id == NO_SESSION:
            self._epoch = FIRST_EPOCH
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def renew(self) -> None:
        """Begin anew: by its id the broker gives up the old session."""
        self._epoch = FIRST_EPOCH

    def last_request(self) -> FetchRequest:
        """Tell the broker that it may forget."""
        return FetchRequest(session_id=self._id, session_epoch=LAST_EPOCH, topics=[])


def _topics(asked: Mapping[TopicPartition, Asked]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, index), one in asked.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=one.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=one.leader_epoch,
                fetch_offset=one.offset,
                partition_max_bytes=one.bytes_max,
            )
        )
    return list(topics.values())


def _forgotten(gone: Mapping[TopicPartition, Asked]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (name, index), one in gone.items():
        key = (name, one.topic_id)
        if key not in topics:
            topics[key] = ForgottenTopic(topic=name, topic_id=one.topic_id, partitions=[])
        topics[key].partitions.append(index)
    return list(topics.values())
