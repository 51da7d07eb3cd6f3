"""Fetching: what leaders serve, what followers do with it, and when it counts."""

from __future__ import annotations

import random
from typing import Any

import pytest
from raft_memory_log import pack
from raft_stage import Stage, partition_of, settings, vote_response

from ottla.broker.raft import wire
from ottla.broker.raft.core import RaftCore
from ottla.broker.raft.errors import RaftFault
from ottla.broker.raft.events import (
    RequestFailed,
    RequestReceived,
    SnapshotStored,
    Stalled,
    TimePassed,
)
from ottla.broker.raft.ids import CLUSTER_METADATA, OffsetAndEpoch
from ottla.protocol.codec import encoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import fetch, fetch_snapshot
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.protocol.messages.vote import VoteRequest
from ottla.protocol.uuids import METADATA_TOPIC_ID


def fetch_by(
    node_id: int, epoch: int, offset: int, last_epoch: int, high_watermark: int = 99
) -> FetchRequest:
    end = OffsetAndEpoch(offset, last_epoch)
    return wire.fetch_request(settings(node_id, ()), epoch, end, high_watermark)


def fetch_answer(epoch: int, leader_id: int = 2, **fields: Any) -> fetch.FetchResponse:
    partition = fetch.PartitionData(
        current_leader=fetch.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch), **fields
    )
    topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return fetch.FetchResponse(responses=[topic])


def leader(**options: Any) -> Stage:
    stage = Stage(**options)
    stage.become_leader()
    return stage


def test_a_record_is_committed_when_a_majority_has_it_on_disk() -> None:
    stage = leader()
    stage.append()
    assert stage.ask(fetch_by(2, 1, 2, 1)) is None
    assert stage.core.high_watermark == 1, "the leader's own disk counts when it is done"
    assert stage.flush().high_watermark == 2


def test_nothing_of_a_former_leader_is_committed_before_a_record_of_this_one() -> None:
    stage = leader(epochs=[1, 1, 1], quorum_state=None)
    epoch = stage.core.epoch
    stage.ask(fetch_by(2, epoch, 3, 1))
    assert stage.core.high_watermark is None
    stage.ask(fetch_by(2, epoch, 4, epoch))
    assert stage.core.high_watermark == 4


def test_a_fetch_waits_for_records() -> None:
    stage = leader()
    token = object()
    stage.tell(RequestReceived(token, fetch_by(3, 1, 1, 1), 18))
    assert stage.answer_to(token) is None
    stage.append()
    assert partition_of(stage.answer_to(token)).records == pack(1, stage.log.numbers[1:])


def test_a_fetch_that_finds_nothing_is_answered_in_time() -> None:
    stage = leader()
    token = object()
    stage.tell(RequestReceived(token, fetch_by(3, 1, 1, 1), 18))
    stage.pass_time(499)
    assert stage.answer_to(token) is None
    stage.pass_time(1)
    assert partition_of(stage.answer_to(token)).error_code == 0


def test_a_new_high_watermark_is_told_at_once() -> None:
    stage = leader()
    answer = stage.ask(fetch_by(2, 1, 1, 1, high_watermark=-1))
    assert partition_of(answer).high_watermark == 1


def test_a_fetch_in_another_epoch_is_refused_with_the_leader() -> None:
    stage = leader()
    assert partition_of(stage.ask(fetch_by(2, 0, 0, 0))).error_code == ErrorCode.FENCED_LEADER_EPOCH
    later = stage.ask(fetch_by(2, 2, 0, 0))
    assert partition_of(later).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert partition_of(later).current_leader.leader_id == 1
    assert [(node.node_id, node.port) for node in later.node_endpoints] == [(1, 1)]
    assert not stage.ask(fetch_by(2, 2, 0, 0), version=16).node_endpoints


def test_a_log_that_went_another_way_is_led_back() -> None:
    stage = leader(epochs=[1, 1, 3])
    epoch = stage.core.epoch
    answer = partition_of(stage.ask(fetch_by(2, epoch, 5, 2)))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 2)


def test_who_is_before_the_start_of_the_log_gets_a_snapshot() -> None:
    stage = leader(epochs=[1, 1, 1])
    epoch = stage.core.epoch
    stage.ask(fetch_by(2, epoch, 4, epoch))
    stage.log.take_snapshot(3, trim=True)
    answer = partition_of(stage.ask(fetch_by(3, epoch, 1, 1)))
    assert (answer.snapshot_id.end_offset, answer.snapshot_id.epoch) == (3, 1)
    request = wire.fetch_snapshot_request(settings(3, ()), epoch, OffsetAndEpoch(3, 1), 8)
    part = partition_of(stage.ask(request))
    assert (part.size, part.position, len(part.unaligned_records)) == (32, 8, 24)
    beyond = wire.fetch_snapshot_request(settings(3, ()), epoch, OffsetAndEpoch(3, 1), 32)
    assert partition_of(stage.ask(beyond)).error_code == ErrorCode.POSITION_OUT_OF_RANGE
    unknown = wire.fetch_snapshot_request(settings(3, ()), epoch, OffsetAndEpoch(2, 1), 0)
    assert partition_of(stage.ask(unknown)).error_code == ErrorCode.SNAPSHOT_NOT_FOUND


def test_a_follower_asks_for_more_only_when_what_it_has_is_on_disk() -> None:
    stage = Stage()
    stage.follow(2, 5)
    request = stage.requests(FetchRequest)[-1]
    number = stage.log.ledger.write(5)
    effects = stage.respond(request, fetch_answer(5, records=pack(0, [number]), high_watermark=0))
    assert effects.flush
    assert not stage.requests(FetchRequest)
    stage.flush()
    again = stage.requests(FetchRequest)[-1].message.topics[0].partitions[0]
    assert (again.fetch_offset, again.last_fetched_epoch) == (1, 5)


def test_a_broker_that_can_be_no_voter_need_not_wait_for_its_disk() -> None:
    stage = Stage([2, 3], can_be_voter=False)
    stage.follow(2, 5)
    request = stage.requests(FetchRequest)[-1]
    number = stage.log.ledger.write(5)
    stage.respond(request, fetch_answer(5, records=pack(0, [number]), high_watermark=0))
    assert stage.requests(FetchRequest)


def test_a_follower_goes_back_to_where_the_logs_agree() -> None:
    stage = Stage(epochs=[1, 1, 2, 2])
    stage.follow(2, 5)
    end = fetch.EpochEndOffset(epoch=1, end_offset=7)
    stage.respond(stage.requests(FetchRequest)[-1], fetch_answer(5, diverging_epoch=end))
    assert stage.log.end == OffsetAndEpoch(2, 1)


def test_a_follower_stops_rather_than_forget_what_is_committed() -> None:
    stage = Stage(epochs=[1, 1, 2, 2])
    stage.follow(2, 5)
    stage.respond(stage.requests(FetchRequest)[-1], fetch_answer(5, high_watermark=3))
    assert stage.core.high_watermark == 3
    end = fetch.EpochEndOffset(epoch=1, end_offset=2)
    with pytest.raises(RaftFault, match="everything before 3 is committed"):
        stage.respond(stage.requests(FetchRequest)[-1], fetch_answer(5, diverging_epoch=end))


def test_records_that_do_not_fit_change_nothing() -> None:
    stage = Stage()
    stage.follow(2, 5)
    request = stage.requests(FetchRequest)[-1]
    stage.respond(request, fetch_answer(5, records=pack(4, [0]), high_watermark=9))
    assert stage.log.end == OffsetAndEpoch(0, 0)
    assert stage.core.high_watermark is None


def test_a_snapshot_takes_the_place_of_the_log_once_it_is_stored() -> None:
    stage = Stage(epochs=[1])
    stage.follow(2, 5)
    snapshot = OffsetAndEpoch(3, 4)
    numbers = [stage.log.ledger.write(4) for _ in range(3)]
    content, half = pack(0, numbers), 16
    told = fetch.SnapshotId(end_offset=3, epoch=4)
    stage.respond(stage.requests(FetchRequest)[-1], fetch_answer(5, snapshot_id=told))
    for position in (0, half):
        request = stage.requests(FetchSnapshotRequest)[-1]
        assert request.message.topics[0].partitions[0].position == position
        part = fetch_snapshot.ResponsePartitionSnapshot(
            snapshot_id=fetch_snapshot.SnapshotId(end_offset=3, epoch=4),
            current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
            size=len(content),
            position=position,
            unaligned_records=content[position : position + half],
        )
        topic = fetch_snapshot.ResponseTopicSnapshot(name=CLUSTER_METADATA, partitions=[part])
        stage.respond(request, fetch_snapshot.FetchSnapshotResponse(topics=[topic]))
    assert stage.effects.store_snapshot == snapshot
    assert stage.log.end == OffsetAndEpoch(1, 1), "not before it is durable"
    stage.log.store_snapshot(snapshot)
    effects = stage.tell(SnapshotStored(snapshot))
    assert effects.high_watermark == 3
    assert stage.log.end == snapshot


def test_a_snapshot_replaces_a_longer_log_that_lacks_it() -> None:
    """A crash between the two leaves a log with a later epoch, of which nothing was committed."""
    stage = Stage(epochs=[1, 2, 2, 2])
    numbers = [stage.log.ledger.write(1) for _ in range(3)]
    snapshot = OffsetAndEpoch(3, 1)
    stage.log.snapshots[snapshot] = numbers
    again = RaftCore(stage.settings, stage.log, None, random.Random(1), 0)
    assert stage.log.end == snapshot
    assert again.high_watermark == 3
    assert again.handle(TimePassed(), 0).flush


def test_a_snapshot_on_its_way_is_not_begun_again() -> None:
    stage = Stage()
    stage.follow(2, 5)
    told = fetch.SnapshotId(end_offset=3, epoch=4)
    stage.respond(stage.requests(FetchRequest)[-1], fetch_answer(5, snapshot_id=told))
    state = stage.core.state
    state.fetching.position = 16  # type: ignore[union-attr]
    request = stage.requests(FetchSnapshotRequest)[-1]
    stage.tell(RequestFailed(request.correlation_id))
    other = stage.requests(FetchRequest)[-1]
    stage.respond(other, fetch_answer(5, snapshot_id=told))
    assert state.fetching.position == 16  # type: ignore[union-attr]


def test_while_the_leader_is_silent_others_are_asked() -> None:
    stage = Stage()
    stage.follow(2, 5)
    request = stage.requests(FetchRequest)[-1]
    assert request.destination.id == 2
    stage.tell(RequestFailed(request.correlation_id))
    assert [each.destination.id for each in stage.requests(FetchRequest)] == [3]


def test_the_quorum_is_described_by_its_leader() -> None:
    request = DescribeQuorumRequest(
        topics=[RequestTopicData(topic_name=CLUSTER_METADATA, partitions=[RequestPartitionData()])]
    )
    follower = Stage()
    refusal = partition_of(follower.ask(request))
    assert refusal.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [node.node_id for node in follower.ask(request).nodes] == [1, 2, 3]
    stage = leader()
    stage.ask(fetch_by(2, 1, 1, 1))
    stage.ask(fetch_by(7, 1, 0, 0))
    stage.now_ms += 300
    answer = stage.ask(request, wall_ms=50_000)
    described = partition_of(answer)
    assert (described.leader_id, described.leader_epoch, described.high_watermark) == (1, 1, 1)
    ends = {each.replica_id: each.log_end_offset for each in described.current_voters}
    assert ends == {1: 1, 2: 1, 3: -1}
    assert [each.replica_id for each in described.observers] == [7]
    times = {each.replica_id: each.last_fetch_timestamp for each in described.current_voters}
    assert times == {1: 50_000, 2: 49_700, 3: -1}
    assert [node.node_id for node in answer.nodes] == [1, 2, 3]
    other = DescribeQuorumRequest(
        topics=[RequestTopicData(topic_name="other", partitions=[RequestPartitionData()])]
    )
    assert partition_of(stage.ask(other)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_can_carry_what_is_told_of_the_quorum(version: int) -> None:
    request = DescribeQuorumRequest(
        topics=[RequestTopicData(topic_name=CLUSTER_METADATA, partitions=[RequestPartitionData()])]
    )
    for stage in (Stage(), leader()):
        assert encoder(DescribeQuorumResponse, version)(stage.ask(request, version))


# How a lost leader is noticed


def following_stage() -> Stage:
    """A follower that its leader has answered."""
    stage = Stage()
    stage.follow(2, 5)
    stage.respond(stage.requests(FetchRequest)[-1], fetch_answer(5))
    return stage


def refuse_fetch(stage: Stage) -> None:
    (request,) = [each for each in stage.requests(FetchRequest) if each.destination.id == 2]
    stage.tell(RequestFailed(request.correlation_id, refused=True))


def test_a_leader_whose_port_is_closed_is_replaced_without_waiting_for_the_fetch_timeout() -> None:
    stage = following_stage()
    refuse_fetch(stage)
    assert stage.state == "Follower"
    stage.pass_time(1_000)  # the longest back-off; the fetch timeout is 2 s
    assert stage.state == "Prospective"
    lost = stage.effects.lost_leader
    assert lost is not None
    assert (lost.leader_id, lost.is_gone) == (2, True)


def test_a_leader_that_only_this_node_cannot_reach_is_given_the_whole_timeout_after_that() -> None:
    stage = following_stage()
    refuse_fetch(stage)
    stage.pass_time(1_000)
    for request in stage.requests(VoteRequest):
        stage.respond(request, vote_response(5, granted=False, leader_id=2))
    assert stage.state == "Follower"
    refuse_fetch(stage)
    stage.pass_time(1_900)
    assert stage.state == "Follower"


def test_the_time_this_node_was_held_up_is_not_taken_for_the_leaders_silence() -> None:
    stage = following_stage()
    stage.now_ms += 2_500
    stage.tell(Stalled(2_000))
    assert stage.state == "Follower"
    stage.pass_time(1_500)
    assert stage.state == "Prospective"


def test_a_leader_that_was_held_up_itself_does_not_take_its_followers_for_lost() -> None:
    stage = Stage(epochs=[1])
    stage.become_leader()
    stage.now_ms += 3_100
    stage.tell(Stalled(2_000))
    assert stage.state == "Leader"
    stage.pass_time(2_000)
    assert stage.state != "Leader"
