"""Elections as the voters see them: who is asked, who gets a vote, and what is on disk first."""

from __future__ import annotations

import pytest
from raft_stage import (
    Stage,
    begin_request,
    key,
    partition_of,
    settings,
    vote_request,
    vote_response,
)

from ottla.broker.raft import wire
from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.events import RequestFailed, ShutdownRequested
from ottla.broker.raft.ids import OffsetAndEpoch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.vote import VoteRequest

EMPTY = OffsetAndEpoch(0, 0)


def on_disk(content: bytes | None) -> ElectionState:
    assert content is not None
    return ElectionState.from_bytes(content)


def test_a_single_voter_leads_at_once() -> None:
    stage = Stage([1])
    assert stage.core.is_leader
    assert stage.core.epoch == 1
    assert stage.core.high_watermark is None, "nothing is committed before it is on disk"
    assert stage.flush().high_watermark == 1


def test_an_election_begins_with_a_pre_vote_that_changes_nothing() -> None:
    stage = Stage()
    effects = stage.wait()
    assert stage.state == "Prospective"
    assert stage.core.epoch == 0
    assert effects.persist is None
    asked = [request.message.topics[0].partitions[0] for request in stage.requests(VoteRequest)]
    assert [each.pre_vote for each in asked] == [True, True]


def test_a_candidate_has_its_own_vote_on_disk_before_it_asks() -> None:
    stage = Stage()
    stage.wait()
    first = stage.requests(VoteRequest)[0]
    effects = stage.respond(first, vote_response(0, granted=True))
    assert stage.state == "Candidate"
    assert on_disk(effects.persist) == ElectionState(1, -1, key(1)._replace(directory=None))
    assert {request.destination.id for request in effects.requests} == {2, 3}


def test_a_majority_makes_a_leader_that_says_so_and_writes_a_record() -> None:
    stage = Stage()
    stage.become_leader()
    assert stage.core.epoch == 1
    assert stage.log.end == OffsetAndEpoch(1, 1)
    announced = stage.requests(BeginQuorumEpochRequest)
    assert [request.destination.id for request in announced] == [2, 3]


def test_a_lost_pre_vote_leaves_the_epoch_alone() -> None:
    stage = Stage()
    stage.wait()
    for request in stage.requests(VoteRequest):
        stage.respond(request, vote_response(0, granted=False))
    assert stage.state == "Unattached"
    assert stage.core.epoch == 0


def test_a_voter_without_pre_vote_is_asked_for_a_real_one() -> None:
    stage = Stage()
    stage.wait()
    request = stage.requests(VoteRequest)[0]
    stage.tell(RequestFailed(request.correlation_id, ErrorCode.UNSUPPORTED_VERSION))
    assert stage.state == "Candidate"


def test_a_vote_is_given_once_and_written_down_first() -> None:
    stage = Stage()
    granted = stage.ask(vote_request(2, 3, EMPTY))
    assert partition_of(granted).vote_granted
    assert on_disk(stage.effects.persist).voted == key(2)._replace(directory=None)
    assert not partition_of(stage.ask(vote_request(3, 3, EMPTY))).vote_granted
    assert partition_of(stage.ask(vote_request(2, 3, EMPTY))).vote_granted, "the same may ask again"


def test_a_vote_outlives_a_restart() -> None:
    stage = Stage()
    stage.ask(vote_request(2, 3, EMPTY))
    again = Stage(quorum_state=stage.effects.persist)
    assert not partition_of(again.ask(vote_request(3, 3, EMPTY))).vote_granted
    assert partition_of(again.ask(vote_request(2, 3, EMPTY))).vote_granted


@pytest.mark.parametrize(
    ("theirs", "granted"),
    [
        (OffsetAndEpoch(1, 2), False),
        (OffsetAndEpoch(9, 1), False),
        (OffsetAndEpoch(2, 2), True),
        (OffsetAndEpoch(1, 3), True),
    ],
)
def test_a_vote_goes_only_to_a_log_that_lacks_nothing(
    theirs: OffsetAndEpoch, granted: bool
) -> None:
    stage = Stage(epochs=[1, 2])
    for pre_vote in (True, False):
        answer = stage.ask(vote_request(2, 7, theirs, pre_vote=pre_vote))
        assert partition_of(answer).vote_granted == granted


def test_requests_that_cannot_be_are_refused() -> None:
    stage = Stage()
    stage.ask(vote_request(2, 4, EMPTY))

    def error(request: VoteRequest) -> int:
        answer = stage.ask(request)
        return int(answer.error_code or partition_of(answer).error_code)

    assert error(vote_request(2, 3, EMPTY)) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(vote_request(2, 5, OffsetAndEpoch(1, 5))) == ErrorCode.INVALID_REQUEST
    assert error(vote_request(2, 5, EMPTY, to=9)) == ErrorCode.INVALID_VOTER_KEY
    stranger = vote_request(2, 5, EMPTY)
    stranger.cluster_id = "another"
    assert error(stranger) == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert error(VoteRequest(cluster_id="cluster")) == ErrorCode.INVALID_REQUEST


def test_a_follower_that_hears_from_its_leader_gives_no_pre_vote() -> None:
    stage = Stage()
    stage.follow(2, 5)
    assert partition_of(stage.ask(vote_request(3, 5, EMPTY, pre_vote=True))).vote_granted
    state = stage.core.state
    state.fetch_succeeded(stage.now_ms, 2_000)  # type: ignore[union-attr]
    assert not partition_of(stage.ask(vote_request(3, 5, EMPTY, pre_vote=True))).vote_granted


def test_a_second_leader_of_an_epoch_is_not_believed() -> None:
    stage = Stage()
    stage.follow(2, 5)
    answer = stage.ask(begin_request(3, 5))
    assert partition_of(answer).error_code == ErrorCode.INVALID_REQUEST
    assert stage.core.leader_id == 2


def test_a_leader_that_restarts_does_not_lead_its_epoch_again() -> None:
    stage = Stage()
    stage.become_leader()
    state = ElectionState(1, 1, key(1)).to_bytes((1, 2, 3), 0)
    again = Stage(epochs=[1], quorum_state=state)
    assert again.state == "Resigned"
    assert not partition_of(again.ask(vote_request(2, 1, EMPTY))).vote_granted
    for _ in range(20):
        if again.state != "Resigned":
            break
        again.wait()
    assert again.core.epoch == 2


def test_who_was_elected_and_lost_only_that_on_disk_counts_as_having_led() -> None:
    voted = ElectionState(1, -1, key(1)).to_bytes((1, 2, 3), 0)
    assert Stage(epochs=[1], quorum_state=voted).state == "Resigned"
    assert Stage(quorum_state=voted).state == "Candidate"


@pytest.mark.parametrize(("successors", "wait_ms"), [((1, 3), 0), ((3, 1), 500), ((3,), 1_000)])
def test_successors_stand_in_their_order(successors: tuple[int, ...], wait_ms: int) -> None:
    stage = Stage()
    stage.follow(2, 5)
    keys = [key(each) for each in successors]
    stage.ask(wire.end_request(settings(2, ()), 5, keys))
    if wait_ms:
        stage.pass_time(wait_ms - 1)
        assert stage.state == "Follower"
        stage.pass_time(1)
    assert stage.state == "Prospective"


def test_a_leader_without_a_majority_resigns() -> None:
    stage = Stage()
    stage.become_leader()
    stage.pass_time(2_999)
    assert stage.core.is_leader
    stage.pass_time(1)
    assert stage.state == "Resigned"
    assert len(stage.requests(EndQuorumEpochRequest)) == 2


def test_one_follower_of_three_voters_keeps_the_leader_in_office() -> None:
    stage = Stage()
    stage.become_leader()
    for _ in range(10):
        stage.pass_time(1_000)
        stage.ask(wire.fetch_request(settings(3, ()), 1, stage.log.end, 1))
    assert stage.core.is_leader


def test_a_shutdown_ends_when_there_is_another_leader() -> None:
    stage = Stage()
    stage.become_leader()
    effects = stage.tell(ShutdownRequested())
    assert stage.state == "Resigned"
    assert not effects.is_shut_down
    for request in stage.requests(EndQuorumEpochRequest):
        stage.respond(request, EndQuorumEpochResponse(topics=[]))
    stage.ask(begin_request(2, 2))
    assert stage.effects.is_shut_down


def test_observers_look_for_the_leader_and_never_stand() -> None:
    stage = Stage([2, 3], node_id=1)
    stage.pass_time(60_000)
    assert stage.state == "Unattached"
    assert stage.requests(FetchRequest)
    assert not stage.requests(VoteRequest)


@pytest.mark.parametrize("version", [0, 1])
def test_the_file_of_the_quorum_state_is_kafkas(version: int) -> None:
    state = ElectionState(7, 2, key(3))
    content = state.to_bytes((1, 2, 3), version)
    if version == 0:
        assert content == (
            b'{"clusterId":"","leaderId":2,"leaderEpoch":7,"votedId":3,"appliedOffset":0,'
            b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
        )
        state = ElectionState(7, 2, key(3)._replace(directory=None))
    else:
        assert content == (
            b'{"leaderId":2,"leaderEpoch":7,"votedId":3,'
            b'"votedDirectoryId":"AwMDAwMDAwMDAwMDAwMDAw","data_version":1}'
        )
    assert ElectionState.from_bytes(content) == state


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not JSON"),
        (b'{"leaderId":1,"lea', "it is not JSON"),
        (b"\xff\xfe\x00", "it is not JSON"),
        (b"[1]", "it is not an object"),
        (b"{}", "it lacks 'data_version'"),
        (b'{"leaderId":1,"leaderEpoch":3,"votedId":1,"data_version":7}', "data_version 7"),
        (b'{"leaderId":1,"leaderEpoch":-3,"votedId":1,"data_version":0}', "leaderEpoch is -3"),
        (b'{"leaderId":1,"leaderEpoch":"x","votedId":1,"data_version":0}', "'x'"),
    ],
)
def test_a_damaged_file_is_told_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ElectionState.from_bytes(content)
