"""Fetches of a follower at its leader: which of its sessions speaks for it and hears of news."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.config.topic import TopicConfig
from ottla.metadata.image import PartitionImage
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
from ottla.replication.cluster_view import ClusterView
from ottla.replication.haste import Haste
from ottla.replication.partition import Partition
from ottla.replication.throttle import Throttle
from ottla.runtime.os_disk import OsDisk
from ottla.server.handlers import fetch
from ottla.server.pending import Pending
from ottla.server.replica_sessions import ReplicaSessionCache
from ottla.storage.log import Log

TOPIC_ID = b"t" * 16
LEADER, FOLLOWER = 1, 2


class Clock:
    def now(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return 1_700_000_000_000


class Leader:
    """A node that leads one partition, without sockets; what is called soon is called by `turn`."""

    def __init__(self, folder: Path) -> None:
        clock = Clock()
        log = Log.open(OsDisk(), f"{folder}/t-0", "t", 0, TopicConfig(), clock, clean=True)
        view = ClusterView(LEADER, clock, 30_000)
        self.partition = Partition("t", TOPIC_ID, 0, lambda _: log, lambda _: None, view)
        self.partition.attach(log, 0)
        both = (LEADER, FOLLOWER)
        self.partition.lead(PartitionImage(0, LEADER, 0, both, both, 0))
        self.sessions = ReplicaSessionCache(random.Random(1))
        self._soon: list[Callable[[], object]] = []
        timer = SimpleNamespace(cancel=lambda: None)
        replicas = SimpleNamespace(
            topics_by_id={TOPIC_ID: SimpleNamespace(partitions={0: self.partition})},
            view=view,
            haste=Haste(clock.now),
            leader_throttle=Throttle(LEADER, clock.now),
            selects_by_rack=False,
            noted=lambda error: error,
        )
        runtime = SimpleNamespace(
            clock=clock, call_later=lambda *_: timer, call_soon=self._soon.append
        )
        node = SimpleNamespace(replicas=replicas, runtime=runtime, replica_sessions=self.sessions)
        self._context: Any = SimpleNamespace(node=node, api_version=17)

    def fetch(self, session_id: int, epoch: int, *, named: bool = True) -> Any:
        wanted = FetchPartition(
            partition=0, fetch_offset=0, current_leader_epoch=0, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=FOLLOWER, replica_epoch=-1),
            session_id=session_id,
            session_epoch=epoch,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])] if named else [],
        )
        return fetch.handle(self._context, request)

    def append(self) -> None:
        batch = bytearray(build_batch([Record(0, 1_700_000_000_000, None, b"x", ())]))
        self.partition.append(batch, read_header(batch), 1_700_000_000_000)
        self.turn()

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
    waiting = leader.fetch(opened(leader), 1, named=False)
    leader.append()
    (topic,) = answer_of(waiting).responses
    assert topic.partitions[0].records


def test_a_follower_that_begins_anew_ends_its_old_session_and_what_waits_in_it(
    leader: Leader,
) -> None:
    session_id = opened(leader)
    old = leader.fetch(session_id, 1, named=False)
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
    (topic,) = leader.fetch(session_id, 1, named=False).responses
    assert topic.partitions[0].records
