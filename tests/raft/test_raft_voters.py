"""Voters that come and go (KIP-853)."""

from __future__ import annotations

from typing import Any

from raft_stage import LISTENER, Stage, directory, key, settings, vote_response, voter

from ottla.broker.raft import wire
from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.events import RequestReceived
from ottla.broker.raft.ids import CLUSTER_METADATA, OffsetAndEpoch
from ottla.broker.raft.voters.voters import VoterSet
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import fetch
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.update_raft_voter import (
    KRaftVersionFeature,
    UpdateRaftVoterRequest,
)
from ottla.protocol.messages.update_raft_voter import Listener as UpdateListener
from ottla.protocol.messages.vote import VoteRequest
from ottla.protocol.uuids import to_text


def add(node_id: int, **changes: Any) -> AddRaftVoterRequest:
    fields: dict[str, Any] = {
        "cluster_id": "cluster",
        "voter_id": node_id,
        "voter_directory_id": directory(node_id),
        "listeners": [Listener(name=LISTENER, host="host", port=node_id)],
    }
    return AddRaftVoterRequest(**(fields | changes))


def remove(node_id: int, **changes: Any) -> RemoveRaftVoterRequest:
    fields: dict[str, Any] = {
        "cluster_id": "cluster",
        "voter_id": node_id,
        "voter_directory_id": directory(node_id),
    }
    return RemoveRaftVoterRequest(**(fields | changes))


def leader(*voters: int) -> Stage:
    """One whose first records are committed."""
    stage = Stage(voters, dynamic=True)
    stage.become_leader()
    for each in voters:
        if each != 1:
            fetched(stage, each)
    assert stage.core.high_watermark == stage.log.end.offset
    return stage


def fetched(stage: Stage, node_id: int) -> None:
    """This replica has all there is."""
    epoch = stage.core.epoch
    high_watermark = stage.core.high_watermark
    stage.ask(wire.fetch_request(settings(node_id, ()), epoch, stage.log.end, high_watermark))


def supports(lowest: int, highest: int) -> ApiVersionsResponse:
    feature = SupportedFeatureKey(name="kraft.version", min_version=lowest, max_version=highest)
    return ApiVersionsResponse(supported_features=[feature])


def begin_add(stage: Stage, node_id: int, **changes: Any) -> object:
    token = object()
    stage.tell(RequestReceived(token, add(node_id, **changes), 1))
    return token


def test_the_first_leader_writes_version_and_voters_into_the_log() -> None:
    stage = leader(1, 2, 3)
    kinds = [type(record).__name__ for _, record in stage.log.control_records(0)]
    assert kinds == ["LeaderChangeMessage", "KRaftVersionRecord", "VotersRecord"]
    change = next(iter(stage.log.control_records(0)))[1]
    assert change.version == 1
    assert [each.voter_directory_id for each in change.voters] == [directory(n) for n in (1, 2, 3)]


def test_an_observer_that_keeps_up_becomes_a_voter() -> None:
    stage = leader(1, 2, 3)
    fetched(stage, 4)
    token = begin_add(stage, 4)
    request = stage.requests(ApiVersionsRequest)[0]
    assert request.destination.port == 4
    stage.respond(request, supports(0, 1))
    assert stage.core.voters.ids == (1, 2, 3, 4), "it counts before it is committed"
    stage.flush()
    fetched(stage, 2)
    assert stage.answer_to(token) is None, "two of four are no majority"
    fetched(stage, 4)
    assert stage.answer_to(token).error_code == 0
    assert stage.core.high_watermark == stage.log.end.offset


def test_who_does_not_want_to_wait_is_answered_when_it_is_written() -> None:
    stage = leader(1)
    fetched(stage, 4)
    token = begin_add(stage, 4, ack_when_committed=False)
    stage.respond(stage.requests(ApiVersionsRequest)[0], supports(0, 1))
    assert stage.answer_to(token).error_code == 0


def test_a_voter_that_lags_or_is_too_old_is_not_added() -> None:
    stage = leader(1, 2, 3)
    token = begin_add(stage, 4)
    stage.respond(stage.requests(ApiVersionsRequest)[0], supports(0, 1))
    assert stage.answer_to(token).error_code == ErrorCode.REQUEST_TIMED_OUT
    fetched(stage, 4)
    token = begin_add(stage, 4)
    stage.respond(stage.requests(ApiVersionsRequest)[0], supports(0, 0))
    assert stage.answer_to(token).error_code == ErrorCode.INVALID_REQUEST
    assert stage.core.voters.ids == (1, 2, 3)


def test_changes_that_make_no_sense_are_refused() -> None:
    stage = leader(1, 2, 3)
    assert stage.ask(add(2)).error_code == ErrorCode.DUPLICATE_VOTER
    assert stage.ask(add(4, listeners=[])).error_code == ErrorCode.INVALID_REQUEST
    assert stage.ask(add(4, voter_directory_id=bytes(16))).error_code == ErrorCode.INVALID_REQUEST
    assert stage.ask(add(4, cluster_id="x")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert stage.ask(remove(4)).error_code == ErrorCode.VOTER_NOT_FOUND
    other_disk = remove(2, voter_directory_id=directory(9))
    assert stage.ask(other_disk).error_code == ErrorCode.VOTER_NOT_FOUND
    assert leader(1).ask(remove(1)).error_code == ErrorCode.VOTER_NOT_FOUND


def test_what_is_wrong_with_a_change_is_said() -> None:
    stage = leader(1, 2, 3)

    def refused(node_id: int, response: ApiVersionsResponse, **changes: Any) -> str:
        token = begin_add(stage, node_id, **changes)
        stage.respond(stage.requests(ApiVersionsRequest)[0], response)
        return str(stage.answer_to(token).error_message)

    assert "does not follow the controllers yet" in refused(4, supports(0, 1))
    fetched(stage, 4)
    wrong = refused(4, supports(0, 1), voter_directory_id=directory(9))
    assert wrong == (
        f"the directory id of node 4 is {to_text(directory(4))}, not {to_text(directory(9))}"
    )
    unreachable = ApiVersionsResponse(error_code=int(ErrorCode.NETWORK_EXCEPTION))
    assert "node 4 does not answer at" in refused(4, unreachable)
    assert "voters are 1, 2, 3" in stage.ask(remove(4)).error_message
    other_disk = stage.ask(remove(2, voter_directory_id=directory(9)))
    assert "the directory id of voter 2 is" in other_disk.error_message
    assert (
        leader(1).ask(remove(1)).error_message == "node 1 is the last voter: add another one first"
    )


def test_only_a_leader_that_has_committed_changes_voters() -> None:
    follower = Stage([1, 2, 3], dynamic=True)
    assert follower.ask(add(4)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    stage = Stage([1, 2, 3], dynamic=True)
    stage.become_leader()
    assert stage.ask(remove(2)).error_code == ErrorCode.REQUEST_TIMED_OUT
    static = Stage([1, 2, 3])
    static.become_leader()
    fetched(static, 2)
    assert static.ask(remove(2)).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_voters_change_one_at_a_time() -> None:
    stage = leader(1, 2, 3)
    token = object()
    stage.tell(RequestReceived(token, remove(3), 0))
    assert stage.ask(remove(2)).error_code == ErrorCode.REQUEST_TIMED_OUT
    stage.flush()
    fetched(stage, 2)
    assert stage.answer_to(token).error_code == 0
    assert stage.core.voters.ids == (1, 2)


def test_a_removed_voter_is_not_counted() -> None:
    stage = leader(1, 2, 3)
    stage.ask(remove(3))
    committed = stage.core.high_watermark
    stage.flush()
    fetched(stage, 3)
    assert stage.core.high_watermark == committed


def test_a_leader_that_removes_itself_stays_until_that_is_committed() -> None:
    stage = leader(1, 2, 3)
    token = object()
    stage.tell(RequestReceived(token, remove(1), 0))
    stage.flush()
    fetched(stage, 2)
    assert stage.core.is_leader, "its own copy does not count any more"
    fetched(stage, 3)
    assert stage.answer_to(token).error_code == 0
    assert stage.state == "Resigned"


def test_who_removed_itself_in_vain_can_be_elected_again() -> None:
    """Nobody else has the removal: node 2 cannot win with a shorter log, so this node must."""
    stage = leader(1, 2)
    stage.ask(remove(1))
    stage.flush()
    stage.pass_time(3_000)
    assert stage.state == "Resigned"
    stage.become_leader()
    fetched(stage, 2)
    assert stage.state == "Resigned", "now it is committed, and this node goes"


def test_a_voter_can_say_that_it_moved() -> None:
    stage = leader(1, 2, 3)
    request = UpdateRaftVoterRequest(
        cluster_id="cluster",
        current_leader_epoch=stage.core.epoch,
        voter_id=2,
        voter_directory_id=directory(2),
        listeners=[UpdateListener(name=LISTENER, host="elsewhere", port=22)],
        k_raft_version_feature=KRaftVersionFeature(max_supported_version=1),
    )
    answer = stage.ask(request)
    assert answer.error_code == 0
    assert (answer.current_leader.leader_id, answer.current_leader.port) == (1, 1)
    node = stage.core.voters.node(2, LISTENER)
    assert node is not None
    assert (node.host, node.port) == ("elsewhere", 22)


def test_a_follower_that_moved_tells_its_leader() -> None:
    stage = Stage([1, 2, 3], dynamic=True, endpoints=((LISTENER, "elsewhere", 11),))
    stage.follow(2, 5)
    for _ in range(10):
        for request in stage.requests(FetchRequest):
            stage.respond(request, no_news())
        stage.pass_time(500)
    assert [each.message.listeners[0].port for each in stage.requests(UpdateRaftVoterRequest)] == [
        11
    ]


def no_news() -> fetch.FetchResponse:
    leader = fetch.LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    partition = fetch.PartitionData(current_leader=leader, high_watermark=0)
    topic = fetch.FetchableTopicResponse(topic=CLUSTER_METADATA, partitions=[partition])
    return fetch.FetchResponse(responses=[topic])


def test_a_controller_that_may_joins_by_itself() -> None:
    stage = Stage([2, 3], dynamic=True, auto_join=True)
    stage.follow(2, 5)
    for _ in range(10):
        for request in stage.requests(FetchRequest):
            stage.respond(request, no_news())
        stage.pass_time(500)
    joins = stage.requests(AddRaftVoterRequest)
    assert [each.message.ack_when_committed for each in joins] == [False]


def test_an_observer_with_a_voters_id_is_no_voter() -> None:
    """Its disk was replaced: what it had promised is gone with the old one."""
    voters = VoterSet(voter(each) for each in (1, 2, 3))
    assert voters.includes(key(1))
    assert not voters.includes(key(1)._replace(directory=directory(9)))
    assert voters.with_removed(key(9)) is None
    assert VoterSet.from_record(voters.to_record()) == voters


def test_voters_in_a_truncated_record_do_not_count() -> None:
    stage = leader(1, 2, 3)
    stage.ask(remove(3))
    assert stage.core.voters.ids == (1, 2)
    stage.follow(2, stage.core.epoch + 1)
    stage.core._replica.truncate(stage.log.end.offset - 1)
    assert stage.core.voters.ids == (1, 2, 3)


def test_the_state_on_disk_names_directories_when_voters_can_change() -> None:
    stage = Stage([1, 2, 3], dynamic=True)
    stage.wait()
    first = stage.requests(VoteRequest)[0]
    effects = stage.respond(first, vote_response(0, granted=True))
    assert effects.persist is not None
    assert ElectionState.from_bytes(effects.persist) == ElectionState(1, -1, key(1))
    assert OffsetAndEpoch(0, 0) == stage.log.end
