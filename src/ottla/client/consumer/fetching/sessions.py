"""A consumer's fetch sessions: a broker remembers the requested partitions, and gets only changes.

From version 13 on topics are named by id; a session cannot switch between ids and names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.values import TopicPartition
from ottla.protocol.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, ReaderSession
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)


class Asked(NamedTuple):
    """The fetch of one partition as requested from a broker."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    bytes_max: int
    is_leader: bool
    """True if the broker leads in that epoch; otherwise it is a follower, which may lag."""


class FetchSession:
    """The fetch session with one broker."""

    __slots__ = ("_asked", "_by_id", "_head")

    def __init__(self) -> None:
        self._head = ReaderSession()
        self._asked: dict[TopicPartition, Asked] = {}
        self._by_id = False

    @property
    def is_open(self) -> bool:
        return self._head.id != NO_SESSION

    def fill(
        self, request: FetchRequest, wanted: Mapping[TopicPartition, Asked], *, by_id: bool
    ) -> None:
        """Write to `request` the part of `wanted` that the broker does not know yet."""
        if by_id is not self._by_id:
            self._head.renew()
            self._by_id = by_id
        request.session_id, request.session_epoch = self._head.id, self._head.epoch
        if self._head.epoch == INITIAL_EPOCH:
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
        """Return whether the session goes on; if not, the next request begins a new one."""
        return self._head.answered(error_code, session_id)

    def renew(self) -> None:
        """Begin a new session: the old id tells the broker to drop the old one."""
        self._head.renew()

    def last_request(self) -> FetchRequest:
        """Return a request that closes the session."""
        return FetchRequest(session_id=self._head.id, session_epoch=FINAL_EPOCH, topics=[])


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
