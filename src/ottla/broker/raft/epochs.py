"""BeginQuorumEpoch and EndQuorumEpoch: a leader announces that it leads, and that it stops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.raft import responses, wire
from ottla.broker.raft.events import RequestReceived
from ottla.broker.raft.ids import CLUSTER_METADATA, ReplicaKey, endpoints_of
from ottla.broker.raft.states.resigned import Resigned
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import begin_quorum_epoch as begin
from ottla.protocol.messages import end_quorum_epoch as end
from ottla.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

if TYPE_CHECKING:
    from ottla.broker.raft.replica import Replica


def handle_begin(
    replica: Replica, event: RequestReceived, request: BeginQuorumEpochRequest
) -> None:
    asked = wire.only_partition(request.topics)
    if not replica.is_for_us(request.cluster_id):
        response = BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    elif asked is None:
        response = BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    else:
        error = _begin(replica, request, asked)
        response = _begin_response(replica, event.version, error)
    replica.answer(event.token, response)


def _begin(
    replica: Replica, request: BeginQuorumEpochRequest, asked: begin.RequestPartitionData
) -> ErrorCode:
    error = _believe(replica, asked, request.leader_endpoints)
    if error != ErrorCode.NONE:
        return error
    if not replica.is_own_key(request.voter_id, asked.voter_directory_id):
        return ErrorCode.INVALID_VOTER_KEY
    return ErrorCode.NONE


def _believe(
    replica: Replica,
    asked: begin.RequestPartitionData | end.RequestPartitionData,
    leader_endpoints: Sequence[begin.LeaderEndpoint] | Sequence[end.LeaderEndpoint],
) -> ErrorCode:
    """Follow the leader that the request names, if it is new."""
    epoch, leader_id = asked.leader_epoch, asked.leader_id
    error = replica.refuse_as_voter(leader_id, epoch)
    if error is not None:
        return error
    if not replica.agrees(epoch, leader_id):
        return ErrorCode.INVALID_REQUEST
    replica.learn(epoch, leader_id, endpoints_of(leader_endpoints))
    return ErrorCode.NONE


def _begin_response(replica: Replica, version: int, error: ErrorCode) -> BeginQuorumEpochResponse:
    quorum = replica.quorum
    partition = begin.ResponsePartitionData(
        partition_index=wire.PARTITION,
        error_code=error,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
    )
    topic = begin.ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    response = BeginQuorumEpochResponse(topics=[topic])
    if version >= 1:
        response.node_endpoints = wire.node_endpoints(
            begin.NodeEndpoint,
            quorum.leader_id,
            quorum.state.leader_endpoints,
            replica.settings.listener,
        )
    return response


def handle_end(replica: Replica, event: RequestReceived, request: EndQuorumEpochRequest) -> None:
    asked = wire.only_partition(request.topics)
    if not replica.is_for_us(request.cluster_id):
        response = EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    elif asked is None:
        response = EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    else:
        error = _believe(replica, asked, request.leader_endpoints)
        follower = replica.follower
        if error == ErrorCode.NONE and follower and follower.leader_id == asked.leader_id:
            follower.fetch_until_ms = replica.now_ms + _stand_after_ms(replica, asked)
            # the leader says itself that it is gone: others may stand for election
            follower.has_fetched = False
            follower.has_ended = True
        response = _end_response(replica, event.version, error)
    replica.answer(event.token, response)


def _stand_after_ms(replica: Replica, asked: end.RequestPartitionData) -> int:
    """Return the delay: the best successor stands at once, each of the others later than the one
    before."""
    keys = [
        ReplicaKey.of(each.candidate_id, each.candidate_directory_id)
        for each in asked.preferred_candidates
    ] or [ReplicaKey(each) for each in asked.preferred_successors]
    longest_ms = replica.settings.election_backoff_max_ms
    for position, key in enumerate(keys):
        if key.matches(replica.settings.key):
            step_ms = longest_ms >> (len(keys) - 1)
            return min(longest_ms, step_ms << (position - 1)) if position else 0
    return longest_ms


def _end_response(replica: Replica, version: int, error: ErrorCode) -> EndQuorumEpochResponse:
    quorum = replica.quorum
    partition = end.ResponsePartitionData(
        partition_index=wire.PARTITION,
        error_code=error,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
    )
    topic = end.ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    response = EndQuorumEpochResponse(topics=[topic])
    if version >= 1:
        response.node_endpoints = wire.node_endpoints(
            end.NodeEndpoint,
            quorum.leader_id,
            quorum.state.leader_endpoints,
            replica.settings.listener,
        )
    return response


def answered(
    replica: Replica, voter_id: int, response: BeginQuorumEpochResponse | EndQuorumEpochResponse
) -> bool:
    partition = wire.only_partition(response.topics)
    if response.error_code or partition is None:
        return False
    state = replica.quorum.state
    if isinstance(state, Resigned) and not partition.error_code:
        state.told.add(voter_id)
    if partition.leader_id == replica.settings.key.id:
        return not partition.error_code
    handled = responses.learn(
        replica,
        partition.error_code,
        partition.leader_epoch,
        partition.leader_id,
        responses.leader_endpoints(replica, partition.leader_id, response.node_endpoints),
    )
    return True if handled is None else handled
