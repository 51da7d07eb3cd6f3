"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter at the leader (KIP-853).

A new set of voters counts from the moment it is in the leader's log. It may only follow a committed
one, and only after the leader has committed a record of its own epoch: then no node can come back
with a set that a former leader wrote and this one does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla import __version__
from ottla.broker.raft.events import RequestReceived
from ottla.broker.raft.ids import ReplicaKey, endpoints_of, node_at
from ottla.broker.raft.settings import KRAFT_VERSION_FEATURE
from ottla.broker.raft.states.leader import Leader
from ottla.broker.raft.voters.change import VoterChange
from ottla.broker.raft.voters.voters import VersionRange, Voter, VoterSet
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import update_raft_voter as update
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ottla.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from ottla.protocol.uuids import to_text

if TYPE_CHECKING:
    from ottla.broker.raft.replica import Replica

Refusal = tuple[ErrorCode, str]


def add(replica: Replica, event: RequestReceived, request: AddRaftVoterRequest) -> None:
    key = ReplicaKey.of(request.voter_id, request.voter_directory_id)
    endpoints = endpoints_of(request.listeners)
    node = node_at(key.id, endpoints, replica.settings.listener)
    refusal = _refuse_change(replica, request.cluster_id, key)
    if refusal is None and node is None:
        refusal = ErrorCode.INVALID_REQUEST, f"no endpoint for listener {replica.settings.listener}"
    if refusal is None and replica.history.voters.get(key.id) is not None:
        refusal = ErrorCode.DUPLICATE_VOTER, f"{key.id} is one of the voters already"
    if refusal is not None:
        replica.answer(
            event.token, AddRaftVoterResponse(error_code=refusal[0], error_message=refusal[1])
        )
        return
    leader = replica.quorum.state
    assert isinstance(leader, Leader)
    assert node is not None
    expires_at_ms = replica.now_ms + replica.settings.request_timeout_ms
    leader.change = VoterChange(
        event.token, True, key, expires_at_ms, endpoints, request.ack_when_committed
    )
    if not replica.send_if_ready(node, _versions_request()):
        conclude(replica, leader, ErrorCode.REQUEST_TIMED_OUT, f"voter {key.id} is busy; try again")


def versions_known(replica: Replica, voter_id: int, response: ApiVersionsResponse) -> bool:
    """Add the voter if the versions that it reported are sufficient."""
    leader = replica.quorum.state
    change = leader.change if isinstance(leader, Leader) else None
    if change is None or change.record_offset is not None or change.key.id != voter_id:
        return True
    assert isinstance(leader, Leader)
    if response.error_code:
        text = _unreachable(replica, change, response.error_code)
        conclude(replica, leader, ErrorCode.REQUEST_TIMED_OUT, text)
        return False
    versions = _kraft_versions(response)
    level = replica.history.kraft_version
    if not versions.includes(level):
        text = f"voter {voter_id} supports {KRAFT_VERSION_FEATURE} {versions}, not {level}"
        conclude(replica, leader, ErrorCode.INVALID_REQUEST, text)
        return True
    progress = leader.progress_of(change.key)
    if progress is None or not progress.is_caught_up(replica.now_ms):
        text = _not_caught_up(leader, change.key, replica.now_ms)
        conclude(replica, leader, ErrorCode.REQUEST_TIMED_OUT, text)
        return True
    added = replica.history.voters.with_added(Voter(change.key, change.endpoints, versions))
    assert added is not None, "voters change one at a time"
    change.record_offset = _write(replica, added)
    if not change.ack_when_committed:
        replica.answer(change.token, AddRaftVoterResponse())
    return True


def _unreachable(replica: Replica, change: VoterChange, error: int) -> str:
    node = node_at(change.key.id, change.endpoints, replica.settings.listener)
    place = "nowhere" if node is None else f"{node.host}:{node.port}"
    return (
        f"node {change.key.id} does not answer at {place}, the endpoint that was given for it "
        f"({ErrorCode.of(error).name}): does it run there?"
    )


def _not_caught_up(leader: Leader, key: ReplicaKey, now_ms: int) -> str:
    if leader.progress_of(key) is not None:
        return f"node {key.id} lags behind: let it catch up as an observer, then try again"
    followers = [one.key for one in leader.observers(now_ms) if one.key.id == key.id]
    if not followers:
        return f"node {key.id} does not follow the controllers yet: start it first, then try again"
    there = ", ".join(to_text(one.directory_bytes) for one in followers)
    return f"the directory id of node {key.id} is {there}, not {to_text(key.directory_bytes)}"


def _not_removable(voters: VoterSet, key: ReplicaKey) -> str:
    voter = voters.get(key.id)
    if voter is None:
        return f"node {key.id} is no voter; voters are {', '.join(map(str, voters.ids))}"
    if not voter.key.matches(key):
        there, given = to_text(voter.key.directory_bytes), to_text(key.directory_bytes)
        return f"the directory id of voter {key.id} is {there}, not {given}"
    return f"node {key.id} is the last voter: add another one first"


def _kraft_versions(response: ApiVersionsResponse) -> VersionRange:
    for feature in response.supported_features:
        if feature.name == KRAFT_VERSION_FEATURE:
            return VersionRange(feature.min_version, feature.max_version)
    return VersionRange(0, 0)


def remove(replica: Replica, event: RequestReceived, request: RemoveRaftVoterRequest) -> None:
    key = ReplicaKey.of(request.voter_id, request.voter_directory_id)
    refusal = _refuse_change(replica, request.cluster_id, key)
    removed = replica.history.voters.with_removed(key)
    if refusal is None and removed is None:
        refusal = ErrorCode.VOTER_NOT_FOUND, _not_removable(replica.history.voters, key)
    if refusal is not None:
        code, text = refusal
        replica.answer(event.token, RemoveRaftVoterResponse(error_code=code, error_message=text))
        return
    leader = replica.quorum.state
    assert isinstance(leader, Leader)
    assert removed is not None
    expires_at_ms = replica.now_ms + replica.settings.request_timeout_ms
    leader.change = VoterChange(event.token, False, key, expires_at_ms)
    leader.change.record_offset = _write(replica, removed)


def update_voter(replica: Replica, event: RequestReceived, request: UpdateRaftVoterRequest) -> None:
    """Update a voter's endpoints or versions in the set."""
    key = ReplicaKey.of(request.voter_id, request.voter_directory_id)
    feature = request.k_raft_version_feature
    voter = Voter(
        key,
        endpoints_of(request.listeners),
        VersionRange(feature.min_supported_version, feature.max_supported_version),
    )
    error = _refuse_update(replica, request, voter)
    updated = replica.history.voters.with_updated(voter)
    if error is None and updated is None:
        error = ErrorCode.VOTER_NOT_FOUND
    if error is None and updated is not None and updated != replica.history.voters:
        _write(replica, updated)
    response = UpdateRaftVoterResponse(error_code=error or ErrorCode.NONE)
    response.current_leader = _current_leader(replica)
    replica.answer(event.token, response)


def _refuse_update(
    replica: Replica, request: UpdateRaftVoterRequest, voter: Voter
) -> ErrorCode | None:
    if not replica.is_for_us(request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    error = replica.refuse_as_leader(request.current_leader_epoch)
    if error is not None:
        return error
    refusal = _refuse_change(replica, request.cluster_id, voter.key)
    if refusal is not None:
        return refusal[0]
    reachable = node_at(voter.key.id, voter.endpoints, replica.settings.listener) is not None
    if not reachable or not voter.versions.includes(replica.history.kraft_version):
        return ErrorCode.INVALID_REQUEST
    return None


def _current_leader(replica: Replica) -> update.CurrentLeader:
    quorum = replica.quorum
    node = node_at(quorum.leader_id, quorum.state.leader_endpoints, replica.settings.listener)
    return update.CurrentLeader(
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
        host=node.host if node else "",
        port=node.port if node else 0,
    )


def _refuse_change(replica: Replica, cluster_id: str | None, key: ReplicaKey) -> Refusal | None:
    if not replica.is_for_us(cluster_id):
        text = f"this is cluster {replica.settings.cluster_id}, not {cluster_id}"
        return ErrorCode.INCONSISTENT_CLUSTER_ID, text
    error = replica.refuse_as_leader(replica.quorum.epoch)
    if error is not None:
        return error, f"the leader is {replica.quorum.leader_id}"
    if key.id < 0 or key.directory is None:
        return ErrorCode.INVALID_REQUEST, "a voter needs its id and the id of its directory"
    leader = replica.quorum.state
    assert isinstance(leader, Leader)
    if leader.change is not None:
        return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way; try again"
    if leader.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT, "the leader is too new to have committed; try again"
    if not replica.history.can_change:
        level = replica.history.kraft_version
        text = f"the voters are fixed: {KRAFT_VERSION_FEATURE} is {level}"
        return ErrorCode.UNSUPPORTED_VERSION, text
    offset = replica.history.voters_offset
    if offset is None or not leader.has_committed(offset):
        return ErrorCode.REQUEST_TIMED_OUT, "the last change of the voters is not committed yet"
    return None


def _write(replica: Replica, voters: VoterSet) -> int:
    offset = replica.log.append_control([voters.to_record()], replica.quorum.epoch)
    replica.log_grew()
    return offset


def finish_if_committed(replica: Replica, leader: Leader) -> None:
    """After a commit, answer the change and resign if this node is not in the new set."""
    change, offset = leader.change, replica.history.voters_offset
    if change and change.record_offset is not None and leader.has_committed(change.record_offset):
        conclude(replica, leader, ErrorCode.NONE)
    if offset is not None and leader.has_committed(offset) and not replica.quorum.is_voter:
        leader.must_resign = True


def expire(replica: Replica, leader: Leader) -> None:
    if leader.change is not None and replica.now_ms >= leader.change.expires_at_ms:
        conclude(replica, leader, ErrorCode.REQUEST_TIMED_OUT)


def conclude(replica: Replica, leader: Leader, error: ErrorCode, text: str | None = None) -> None:
    """Answer the change in progress, if there is one, and drop it.

    If its record is in the log, it may still take effect.
    """
    change, leader.change = leader.change, None
    if change is None:
        return
    if not change.is_addition:
        response = RemoveRaftVoterResponse(error_code=error, error_message=text)
        replica.answer(change.token, response)
    elif change.ack_when_committed or change.record_offset is None:
        replica.answer(change.token, AddRaftVoterResponse(error_code=error, error_message=text))


def _versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
