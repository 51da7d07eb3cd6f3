"""Vote: a real vote, or a pre-vote to find out whether an election could be won (KIP-996)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.raft import responses, wire
from ottla.broker.raft.events import RequestReceived
from ottla.broker.raft.ids import CLUSTER_METADATA, NO_LEADER, OffsetAndEpoch, ReplicaKey
from ottla.broker.raft.states.candidate import Candidate
from ottla.broker.raft.states.prospective import Prospective
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import vote
from ottla.protocol.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from ottla.broker.raft.replica import Replica


def handle(replica: Replica, event: RequestReceived, request: VoteRequest) -> None:
    partition = wire.only_partition(request.topics)
    if not replica.is_for_us(request.cluster_id):
        response = VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    elif partition is None:
        response = VoteResponse(error_code=ErrorCode.INVALID_REQUEST)
    else:
        error, granted = _decide(replica, request.voter_id, partition)
        response = _response(replica, event.version, error, granted)
    replica.answer(event.token, response)


def _decide(
    replica: Replica, voter_id: int, asked: vote.RequestPartitionData
) -> tuple[ErrorCode, bool]:
    error = _refuse(replica, asked)
    if error is not None:
        return error, False
    quorum = replica.quorum
    if asked.replica_epoch > quorum.epoch:
        replica.unattach(asked.replica_epoch)
    if not replica.is_own_key(voter_id, asked.voter_directory_id):
        return ErrorCode.INVALID_VOTER_KEY, False
    candidate = ReplicaKey.of(asked.replica_id, asked.replica_directory_id)
    theirs = OffsetAndEpoch(asked.last_offset, asked.last_offset_epoch)
    granted = quorum.state.grants_vote(
        candidate, up_to_date=not theirs.is_behind(replica.log.end), pre_vote=asked.pre_vote
    )
    if granted and not asked.pre_vote and quorum.election.voted is None:
        quorum.vote_for(candidate, replica.now_ms)
    return ErrorCode.NONE, granted


def _refuse(replica: Replica, asked: vote.RequestPartitionData) -> ErrorCode | None:
    """Return why the request is invalid. A candidate starts a new epoch, so its log cannot have
    records of that epoch; in a pre-vote it can."""
    last_possible = asked.replica_epoch if asked.pre_vote else asked.replica_epoch - 1
    if asked.last_offset < 0 or not 0 <= asked.last_offset_epoch <= last_possible:
        return ErrorCode.INVALID_REQUEST
    return replica.refuse_as_voter(asked.replica_id, asked.replica_epoch)


def _response(replica: Replica, version: int, error: ErrorCode, granted: bool) -> VoteResponse:
    quorum = replica.quorum
    partition = vote.ResponsePartitionData(
        partition_index=wire.PARTITION,
        error_code=error,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
        vote_granted=granted,
    )
    topic = vote.ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    response = VoteResponse(topics=[topic])
    if version >= 1:
        response.node_endpoints = wire.node_endpoints(
            vote.NodeEndpoint,
            quorum.leader_id,
            quorum.state.leader_endpoints,
            replica.settings.listener,
        )
    return response


def answered(replica: Replica, voter_id: int, asked: VoteRequest, response: VoteResponse) -> bool:
    """Count a vote; True if the voter may be asked again at once."""
    state = replica.quorum.state
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION and isinstance(state, Prospective):
        replica.stand()  # a voter does not know pre-votes: stand without
        return True
    partition = wire.only_partition(response.topics)
    if response.error_code or partition is None:
        return False
    handled = responses.learn(
        replica,
        partition.error_code,
        partition.leader_epoch,
        partition.leader_id,
        responses.leader_endpoints(replica, partition.leader_id, response.node_endpoints),
    )
    if handled is not None:
        return handled
    _count(replica, voter_id, asked, granted=partition.vote_granted)
    return True


def _count(replica: Replica, voter_id: int, asked: VoteRequest, *, granted: bool) -> None:
    state = replica.quorum.state
    was_pre_vote = asked.topics[0].partitions[0].pre_vote
    if isinstance(state, Candidate) and not was_pre_vote:
        state.ballot.record(voter_id, granted=granted)
    elif isinstance(state, Prospective) and was_pre_vote:
        state.ballot.record(voter_id, granted=granted)
        if state.ballot.is_lost:
            give_up(replica, state)
    replica.advance_election()


def give_up(replica: Replica, state: Prospective) -> None:
    """Give up, because no majority would elect this node: follow the known leader, or wait for
    one."""
    election = state.election
    if election.has_leader and state.leader_endpoints:
        replica.follow(election.epoch, election.leader_id, state.leader_endpoints)
    else:
        replica.unattach(election.epoch, election.leader_id if election.has_leader else NO_LEADER)
