"""Fetches of a follower at its leader: which of its sessions speaks for it and hears of news."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication.cluster_view import ClusterView
from ottla.broker.replication.election_nudge import ElectionNudge
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.throttle import ReplicationThrottle
from ottla.broker.server.caller import Caller
from ottla.broker.server.context import RequestContext
from ottla.broker.server.handlers import fetch
from ottla.broker.server.pending import Pending
from ottla.broker.server.replica_sessions import ReplicaSessionCache
from ottla.broker.storage.log import Log
from ottla.config.topic import TopicConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from ottla.records.builder import build_batch
from ottla.records.header import read_header
from ottla.records.record import Record
from ottla.runtime.os_disk import OsDisk
from ottla.security.principal import ANONYMOUS

TOPIC_ID = b"t" * 16
LEADER, FOLLOWER = 1, 2
FROM_START: Mapping[int, int] = {0: 0}
NONE_NAMED: Mapping[int, int] = {}


class Clock:
    def now(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return 1_700_000_000_000


class Leader:
    """A node that leads two partitions, without sockets; `turn` calls what is to be called soon."""

    def __init__(self, folder: Path) -> None:
        clock = Clock()
        view = ClusterView(LEADER, clock, 30_000)
        self.partitions = [self._lead(folder, index, clock, view) for index in range(2)]
        self.sessions = ReplicaSessionCache(random.Random(1))
        self._soon: list[Callable[[], object]] = []
        timer = SimpleNamespace(cancel=lambda: None)
        replicas = SimpleNamespace(
            topics_by_id={TOPIC_ID: SimpleNamespace(partitions=dict(enumerate(self.partitions)))},
            view=view,
            election_nudge=ElectionNudge(clock.now),
            leader_throttle=ReplicationThrottle(LEADER, clock.now),
            selects_by_rack=False,
            fail_dir_if_needed=lambda error: error,
        )
        runtime = SimpleNamespace(
            clock=clock, call_later=lambda *_: timer, call_soon=self._soon.append
        )
        services = SimpleNamespace(
            replicas=replicas,
            runtime=runtime,
            replica_sessions=self.sessions,
            authorizer=None,
            topic_figures=None,
        )
        caller = Caller(ANONYMOUS, ("127.0.0.1", 0), "PLAINTEXT")
        self._context: Any = RequestContext(ApiKey.FETCH, 17, None, caller, services)  # type: ignore[type-var]

    @staticmethod
    def _lead(folder: Path, index: int, clock: Any, view: ClusterView) -> Partition:
        log = Log.open(
            OsDisk(), f"{folder}/t-{index}", "t", index, TopicConfig(), clock, clean=True
        )
        partition = Partition("t", TOPIC_ID, index, lambda _: log, lambda _: None, view)
        partition.attach(log, 0)
        both = (LEADER, FOLLOWER)
        partition.lead(PartitionImage(index, LEADER, 0, both, both, 0))
        return partition

    def fetch(self, session_id: int, epoch: int, named: Mapping[int, int] = FROM_START) -> Any:
        """`named`: partition -> from which offset."""
        wanted = [
            FetchPartition(
                partition=index,
                fetch_offset=offset,
                current_leader_epoch=0,
                last_fetched_epoch=0 if offset else -1,
                partition_max_bytes=1 << 20,
            )
            for index, offset in named.items()
        ]
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=FOLLOWER, replica_epoch=-1),
            session_id=session_id,
            session_epoch=epoch,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=wanted)] if named else [],
        )
        return fetch.handle(self._context, request)

    def append(self, index: int = 0) -> None:
        self.append_now(index)
        self.turn()

    def append_now(self, index: int) -> None:
        batch = bytearray(build_batch([Record(0, 1_700_000_000_000, None, b"x", ())]))
        self.partitions[index].append(batch, read_header(batch), 1_700_000_000_000)

    def turn(self) -> None:
        for _ in range(10):
            soon, self._soon[:] = list(self._soon), []
            for one in soon:
                one()
        assert not self._soon, "fetches wake each other for ever"


@pytest.fixture
def leader(tmp_path: Path) -> Leader:
    return Leader(tmp_path)


def answer_of(pending: Any) -> Any:
    assert isinstance(pending, Pending)
    heard: list[Any] = []
    pending.when_resolved(heard.append)
    return heard[0] if heard else None


def opened(leader: Leader) -> int:
    """A session whose first fetch found nothing and waits no longer; its id."""
    waiting = leader.fetch(0, 0)
    (session_id,) = leader.sessions._sessions
    session = leader.sessions._sessions[session_id]
    assert session.waiting is waiting
    session.waiting.hurry()
    leader.turn()
    assert answer_of(waiting).session_id == session_id
    return session_id


def test_a_waiting_fetch_is_answered_with_what_is_appended(leader: Leader) -> None:
    waiting = leader.fetch(opened(leader), 1, NONE_NAMED)
    leader.append()
    (topic,) = answer_of(waiting).responses
    assert topic.partitions[0].records


def test_a_follower_that_begins_anew_ends_its_old_session_and_what_waits_in_it(
    leader: Leader,
) -> None:
    session_id = opened(leader)
    old = leader.fetch(session_id, 1, NONE_NAMED)
    new = leader.fetch(session_id, 0)
    assert answer_of(old).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert len(leader.sessions) == 1
    leader.append()
    (topic,) = answer_of(new).responses
    assert topic.partitions[0].records


def test_a_late_request_of_a_follower_does_not_keep_its_session_from_news(leader: Leader) -> None:
    session_id = opened(leader)
    late = leader.fetch(0, 0)
    assert len(leader.sessions) == 2
    leader.append()
    assert answer_of(late).responses
    (topic,) = leader.fetch(session_id, 1, NONE_NAMED).responses
    assert topic.partitions[0].records


class AppendsWhenCommitted:
    """A producer whose next batch, to partition 1, is there as soon as that to 0 is answered."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        leader.partitions[0].waiters[self] = None  # type: ignore[index]

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        del partition.waiters[self]  # type: ignore[arg-type]
        self._leader.append_now(1)


def test_what_is_appended_while_a_fetch_is_answered_comes_with_the_next(leader: Leader) -> None:
    """A fetch may commit records, and their producer may go on at once in a partition that this
    fetch has already looked at."""
    leader.append()
    leader.append()
    session_id = leader.fetch(0, 0, {1: 0, 0: 0}).session_id
    AppendsWhenCommitted(leader)
    answer = leader.fetch(session_id, 1, {1: 0, 0: 1})
    assert [one.partition_index for one in answer.responses[0].partitions] == [0]
    (topic,) = leader.fetch(session_id, 2, {0: 2}).responses
    assert [bool(one.records) for one in topic.partitions if one.partition_index == 1] == [True]


def test_what_is_appended_while_a_fetch_begins_to_wait_wakes_it(leader: Leader) -> None:
    leader.append()
    session_id = leader.fetch(0, 0, {1: 0, 0: 0}).session_id
    AppendsWhenCommitted(leader)
    waiting = leader.fetch(session_id, 1, {1: 0, 0: 1})
    leader.turn()
    (topic,) = answer_of(waiting).responses
    assert [bool(one.records) for one in topic.partitions if one.partition_index == 1] == [True]
