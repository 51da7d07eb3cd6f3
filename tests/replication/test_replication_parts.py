"""The pure parts of replication, one at a time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication.cluster_view import ClusterView
from ottla.broker.replication.election_nudge import WAIT_MS, ElectionNudge
from ottla.broker.replication.fetching.fetch_session import FollowerSession, Position
from ottla.broker.replication.follower_fetch import FollowerFetch, take_fetch
from ottla.broker.replication.follower_state import after_out_of_range, truncation_offset
from ottla.broker.replication.following import checked_batches
from ottla.broker.replication.leader_state import LeaderState, Proposal
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.throttle import ReplicationThrottle
from ottla.broker.server.replica_sessions import ReplicaSessionCache
from ottla.broker.storage.leader_epochs import LeaderEpochs
from ottla.broker.storage.log import Log
from ottla.config.topic import TopicConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import FetchPartition, FetchTopic
from ottla.records.builder import build_batch
from ottla.records.header import set_leader_epoch
from ottla.records.record import Record
from ottla.runtime.clock import SystemClock
from ottla.runtime.os_disk import OsDisk

LAG_MS = 1_000


def leader(isr: tuple[int, ...] = (1, 2, 3), end_offset: int = 10) -> LeaderState:
    return LeaderState(1, PartitionImage(0, 1, 5, (1, 2, 3), isr, 7), end_offset, now_ms=0)


def everybody(broker_id: int, broker_epoch: int) -> bool:
    return True


def nobody(broker_id: int, broker_epoch: int) -> bool:
    return False


def fetched(state: LeaderState, follower: int, offset: int, end: int, now_ms: int = 0) -> None:
    state.followers[follower].fetched(offset, 0, 1, end, now_ms)


# --- the leader ---------------------------------------------------------------------------------


def test_the_high_watermark_is_the_least_of_the_isr_and_unknown_until_all_have_fetched() -> None:
    state = leader()
    fetched(state, 2, 8, 10)
    assert state.high_watermark(10, 0, LAG_MS, everybody) == -1
    fetched(state, 3, 9, 10)
    assert state.high_watermark(10, 0, LAG_MS, everybody) == 8


def test_a_follower_outside_of_the_isr_that_keeps_up_holds_the_high_watermark_back() -> None:
    state = leader(isr=(1, 2))
    fetched(state, 2, 10, 10)
    fetched(state, 3, 10, 10)
    assert state.high_watermark(12, 0, LAG_MS, everybody) == 10
    fetched(state, 2, 12, 12)
    assert state.high_watermark(12, 0, LAG_MS, everybody) == 10
    assert state.high_watermark(12, 0, LAG_MS, nobody) == 12
    assert state.high_watermark(12, LAG_MS + 1, LAG_MS, everybody) == 12


def test_a_follower_joins_only_from_the_beginning_of_the_epoch_on() -> None:
    state = leader(isr=(1, 2), end_offset=10)
    fetched(state, 3, 9, 12)
    assert state.propose_expansion(3, 5, 4, everybody) is None
    fetched(state, 3, 10, 12)
    assert state.propose_expansion(3, 11, 4, everybody) is None
    assert state.propose_expansion(3, 10, 4, nobody) is None
    proposal = state.propose_expansion(3, 10, 4, everybody)
    assert proposal is not None
    assert (proposal.isr, proposal.broker_epochs) == ((1, 2, 3), (4, -1, 1))
    assert state.isr == (1, 2)
    assert state.maximal_isr == {1, 2, 3}


def test_one_proposal_at_a_time_and_a_refusal_that_was_not_carried_out_undoes_it() -> None:
    state = leader(isr=(1, 2))
    fetched(state, 3, 10, 10)
    proposal = state.propose_expansion(3, 10, 4, everybody)
    assert proposal is not None
    assert state.propose_shrinking(10, 10 * LAG_MS, LAG_MS, 4) is None
    assert not state.refused(proposal, ErrorCode.INELIGIBLE_REPLICA)
    assert state.maximal_isr == {1, 2}


@pytest.mark.parametrize("error", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_after_a_refusal_that_tells_of_old_news_the_proposed_count_until_the_metadata_tells(
    error: ErrorCode,
) -> None:
    state = leader(isr=(1, 2))
    fetched(state, 3, 10, 10)
    proposal = state.propose_expansion(3, 10, 4, everybody)
    assert proposal is not None
    assert not state.refused(proposal, error)
    assert state.maximal_isr == {1, 2, 3}
    assert state.pending is proposal
    assert state.update(PartitionImage(0, 1, 5, (1, 2, 3), (1, 2), 9), 10, 0)
    assert state.maximal_isr == {1, 2}


def test_an_unknown_failure_is_asked_again() -> None:
    state = leader(isr=(1, 2))
    fetched(state, 3, 10, 10)
    proposal = state.propose_expansion(3, 10, 4, everybody)
    assert proposal is not None
    assert state.refused(proposal, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_metadata_that_an_answer_has_told_before_does_not_undo_the_next_proposal() -> None:
    state = leader(isr=(1,))
    for follower in (2, 3):
        fetched(state, follower, 10, 10)
    first = state.propose_expansion(2, 10, 4, everybody)
    assert first is not None
    assert state.accepted(first, (1, 2), 5, 8)
    second = state.propose_expansion(3, 10, 4, everybody)
    assert not state.update(PartitionImage(0, 1, 5, (1, 2, 3), (1, 2), 8), 10, 0)
    assert state.pending is second
    assert state.maximal_isr == {1, 2, 3}


def test_metadata_that_voids_a_proposal_brings_the_next_one_without_a_further_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposed: list[Proposal] = []
    view = ClusterView(1, SystemClock(), LAG_MS)
    view.propose = lambda _, proposal: proposed.append(proposal)
    monkeypatch.setattr(view, "is_eligible", everybody)
    log = Log.open(OsDisk(), str(tmp_path), "t", 0, TopicConfig(), SystemClock(), clean=True)
    partition = Partition("t", bytes(16), 0, lambda _: log, lambda _: None, view)
    partition.attach(log, 0)
    partition.lead(PartitionImage(0, 1, 5, (1, 2), (1,), 7))
    take_fetch(partition, FollowerFetch(2, 1, 5, 0, -1, 0), view.now_ms())
    partition.lead(PartitionImage(0, 1, 5, (1, 2), (1,), 8))  # a directory was assigned, say
    assert [(one.isr, one.partition_epoch) for one in proposed] == [((1, 2), 7), ((1, 2), 8)]
    log.close(clean=True)


def test_who_falls_behind_for_too_long_is_to_leave_and_counts_until_it_has_left() -> None:
    state = leader()
    fetched(state, 2, 20, 20, now_ms=LAG_MS)
    fetched(state, 3, 10, 20, now_ms=LAG_MS)
    assert state.propose_shrinking(25, LAG_MS, LAG_MS, 4) is None
    proposal = state.propose_shrinking(25, LAG_MS + 1, LAG_MS, 4)
    assert proposal is not None
    assert proposal.isr == (1, 2)
    assert state.maximal_isr == {1, 2, 3}
    assert state.accepted(proposal, (1, 2), 5, 8)
    assert state.maximal_isr == {1, 2}


def test_a_follower_under_steady_load_keeps_up_though_it_is_never_at_the_end() -> None:
    state = leader()
    for moment in range(20):
        fetched(state, 2, 10 * moment, 10 * moment + 10, now_ms=moment * LAG_MS // 2)
    assert state.followers[2].keeps_up(300, 10 * LAG_MS, LAG_MS)


# --- the follower -------------------------------------------------------------------------------


class Epochs:
    def __init__(self, end_offset: int, *entries: tuple[int, int]) -> None:
        self.end_offset = end_offset
        self._epochs = LeaderEpochs(list(entries))

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        return self._epochs.end_offset_for(epoch, self.end_offset)


def test_a_follower_is_cut_where_the_epoch_that_both_know_ended() -> None:
    log = Epochs(100, (0, 0), (2, 50), (4, 80))
    assert truncation_offset(log, 2, 70) == 70  # the leader's epoch 2 was shorter
    assert truncation_offset(log, 2, 90) == 80  # its own was
    assert truncation_offset(log, 3, 95) == 80  # epoch 3 it does not know: 2 is next
    assert truncation_offset(log, 4, 200) == 100


def test_out_of_range_is_the_end_of_the_leader_or_its_beginning() -> None:
    assert after_out_of_range(100, 0, 60) == (60, False)
    assert after_out_of_range(100, 120, 200) == (120, True)
    assert after_out_of_range(100, 50, 200) == (100, False)


def test_batches_of_a_later_leader_are_left_out_and_damaged_ones_refused() -> None:
    def batch(epoch: int) -> bytearray:
        made = bytearray(build_batch([Record(0, 1, None, b"v", ())]))
        set_leader_epoch(made, epoch)
        return made

    found = checked_batches(batch(3) + batch(4) + batch(5), leader_epoch=4)
    assert [header.partition_leader_epoch for header, _ in found] == [3, 4]
    damaged = batch(3)
    damaged[-1] ^= 1
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        checked_batches(damaged, leader_epoch=4)


# --- sessions -----------------------------------------------------------------------------------

A, B = (b"a" * 16, 0), (b"b" * 16, 1)


def test_a_session_names_all_once_and_then_what_changed() -> None:
    session = FollowerSession()
    session.put(A, Position(0, -1, 3, 0))
    session.put(B, Position(5, 2, 3, 0))
    first = session.request()
    assert (first.session_id, first.epoch, set(first.named)) == (0, 0, {A, B})
    assert session.answered(ErrorCode.NONE, 77)
    session.put(A, Position(9, 3, 3, 0))
    session.put(B, Position(5, 2, 3, 0))
    second = session.request()
    assert (second.session_id, second.epoch, set(second.named)) == (77, 1, {A})
    session.answered(ErrorCode.NONE, 77)
    session.remove(B)
    third = session.request()
    assert (third.epoch, third.named, third.forgotten) == (2, {}, [B])


def test_a_session_that_is_over_begins_anew_with_everything() -> None:
    session = FollowerSession()
    session.put(A, Position(0, -1, 3, 0))
    session.request()
    session.answered(ErrorCode.NONE, 77)
    session.request()
    assert not session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    again = session.request()
    assert (again.session_id, again.epoch, set(again.named)) == (0, 0, {A})


def test_a_session_without_an_answer_gives_its_place_to_the_next() -> None:
    session = FollowerSession()
    session.put(A, Position(0, -1, 3, 0))
    session.request()
    session.answered(ErrorCode.NONE, 77)
    session.request()
    session.reset()
    again = session.request()
    assert (again.session_id, again.epoch, set(again.named)) == (77, 0, {A})
    assert session.answered(ErrorCode.NONE, 78)
    assert session.request().session_id == 78


def test_sessions_of_an_earlier_life_of_a_follower_go() -> None:
    cache = ReplicaSessionCache(random.Random(1))
    old = cache.create(2, broker_epoch=5)
    other = cache.create(3, broker_epoch=1)
    cache.create(2, broker_epoch=6)
    assert cache.resume(old.id, 1, 2) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.resume(other.id, 1, 3) is other
    assert cache.resume(other.id, 1, 3) == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_follower_that_registered_anew_is_looked_at_anew_in_all_partitions() -> None:
    session = ReplicaSessionCache(random.Random(1)).create(2, broker_epoch=5)
    wanted = FetchPartition(partition=0, fetch_offset=3)
    session.update([FetchTopic(topic_id=A[0], partitions=[wanted])])
    (followed,) = session.news
    followed.moved = followed.is_unread = False
    session.settled(followed)
    session.take_epoch(5)
    assert not session.news
    session.take_epoch(6)
    assert list(session.news) == [followed]
    assert followed.moved


# --- throttles and nudge ------------------------------------------------------------------------


class Now:
    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


def test_a_throttle_covers_the_replicas_that_the_topic_names_for_this_broker() -> None:
    throttle = ReplicationThrottle(2, Now())
    throttle.cover("t", ("0:1", "1:2"))
    assert not throttle.covers("t", 0)
    assert throttle.covers("t", 1)
    assert not throttle.covers("other", 1)
    throttle.cover("t", ("*",))
    assert throttle.covers("t", 0)
    throttle.cover("t", ())
    assert not throttle.covers("t", 1)


def test_a_throttle_keeps_the_rate_over_its_windows() -> None:
    now = Now()
    throttle = ReplicationThrottle(2, now)
    throttle.record(10**9)
    assert throttle.pause_s() == 0
    throttle.limit(1_000)
    assert throttle.pause_s() > 0
    now.s += 60
    sent = 0
    for _ in range(600):
        now.s += 0.1
        if throttle.pause_s() == 0:
            throttle.record(500)
            sent += 500
    assert 50_000 <= sent <= 75_000


def test_after_an_election_followers_fetches_are_answered_at_once_and_then_soon() -> None:
    class Waiting:
        hurried = 0

        def hurry(self) -> None:
            self.hurried += 1

    now, waiting = Now(), Waiting()
    nudge = ElectionNudge(now)
    nudge.register_waiting(2, waiting)
    assert nudge.wait_ms(2, 500) == 500
    nudge.elected([2])
    assert waiting.hurried == 1
    assert nudge.wait_ms(2, 500) == WAIT_MS
    assert nudge.wait_ms(3, 500) == 500
    now.s += 2
    assert nudge.wait_ms(2, 500) == 500
