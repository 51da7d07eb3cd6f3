"""The periodic work of each state: requests to send now, and time-outs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.raft import fetching, voting, wire
from ottla.broker.raft.effects import LostLeader
from ottla.broker.raft.errors import RaftFault
from ottla.broker.raft.ids import Node, node_at
from ottla.broker.raft.quorum import State
from ottla.broker.raft.settings import SUPPORTED_KRAFT_VERSIONS
from ottla.broker.raft.states.candidate import Candidate
from ottla.broker.raft.states.follower import Follower
from ottla.broker.raft.states.leader import Leader
from ottla.broker.raft.states.prospective import Prospective
from ottla.broker.raft.states.resigned import Resigned
from ottla.broker.raft.states.unattached import Unattached
from ottla.broker.raft.voters import changes as voter_changes
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter import Listener as AddListener
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.update_raft_voter import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
)
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.raft.replica import Replica

TRANSITIONS_MAX = 10
"""The most transitions in one go; a single voter makes the most: unattached, prospective,
candidate, leader."""


def poll(replica: Replica) -> int | None:
    """Send what can be sent; return when there is something to do again."""
    for _ in range(TRANSITIONS_MAX):
        replica.connections.expire(replica.now_ms)
        state = replica.quorum.state
        due_ms = _poll_state(replica, state)
        if replica.quorum.state is state:
            return _earliest(due_ms, replica.connections.next_change_ms())
    raise RaftFault(f"no rest after {TRANSITIONS_MAX} transitions: {replica.quorum.state}")


def extend(replica: Replica, late_ms: int) -> None:
    """Extend the others' deadlines by the time that this node was stalled, at most one fetch
    timeout."""
    late_ms = min(late_ms, replica.settings.fetch_timeout_ms)
    match replica.quorum.state:
        case Follower() as follower:
            follower.fetch_until_ms += late_ms
        case Leader() as leader:
            leader.check_quorum_at_ms += late_ms


def _earliest(*times_ms: int | None) -> int | None:
    return min((each for each in times_ms if each is not None), default=None)


def _poll_state(replica: Replica, state: State) -> int | None:
    match state:
        case Leader():
            return _poll_leader(replica, state)
        case Resigned():
            return _poll_resigned(replica, state)
        case Candidate() | Prospective():
            return _poll_nominee(replica, state)
        case Unattached():
            return _poll_unattached(replica, state)
        case Follower() if replica.quorum.may_stand:
            return _poll_voter(replica, state)
        case Follower():
            return _poll_observer(replica, state)


def _poll_leader(replica: Replica, leader: Leader) -> int | None:
    now_ms = replica.now_ms
    if replica.is_shutting_down or leader.must_resign or leader.has_lost_quorum(now_ms):
        if not replica.is_shutting_down and leader.has_lost_quorum(now_ms):
            silent_ms = now_ms - leader.check_quorum_at_ms + replica.settings.check_quorum_ms
            replica.effects.lost_leader = LostLeader(replica.settings.key.id, silent_ms)
        replica.resign()
        return None
    voter_changes.expire(replica, leader)
    fetching.answer_expired(replica)
    if now_ms >= leader.announce_at_ms:
        for key in leader.to_be_announced(now_ms):
            node = replica.history.voters.node(key.id, replica.settings.listener)
            request = wire.begin_request(replica.settings, replica.quorum.epoch, key)
            replica.send_if_ready(node, request)
        leader.announce_at_ms = now_ms + replica.settings.announce_period_ms
    return _earliest(
        leader.announce_at_ms,
        leader.check_quorum_at_ms if leader.needs_others else None,
        leader.change.expires_at_ms if leader.change else None,
        replica.delayed.next_expiry_ms(),
    )


def _poll_resigned(replica: Replica, resigned: Resigned) -> int | None:
    for key in resigned.successors:
        if key.id not in resigned.told:
            node = replica.history.voters.node(key.id, replica.settings.listener)
            request = wire.end_request(replica.settings, replica.quorum.epoch, resigned.successors)
            replica.send_if_ready(node, request)
    if replica.is_shutting_down:
        return None
    is_alone = replica.history.voters.is_only(replica.settings.key)
    if is_alone or replica.now_ms >= resigned.leave_at_ms:
        # In its own epoch it would still count as the leader, and could follow no other node.
        replica.unattach(replica.quorum.epoch + 1)
    return resigned.leave_at_ms


def _poll_nominee(replica: Replica, state: Candidate | Prospective) -> int | None:
    if replica.now_ms >= state.give_up_at_ms and not replica.is_shutting_down:
        if isinstance(state, Candidate):
            replica.prospect()
        else:
            voting.give_up(replica, state)
        return None
    if not state.ballot.is_lost:
        pre_vote = isinstance(state, Prospective)
        for voter in state.ballot.unrecorded:
            node = replica.history.voters.node(voter.id, replica.settings.listener)
            request = wire.vote_request(
                replica.settings, replica.quorum.epoch, voter, replica.log.end, pre_vote=pre_vote
            )
            replica.send_if_ready(node, request)
    return None if replica.is_shutting_down else state.give_up_at_ms


def _poll_unattached(replica: Replica, state: Unattached) -> int | None:
    if not replica.quorum.may_stand:
        _fetch_from_any(replica)
        return None
    if state.election_at_ms is None:
        state.election_at_ms = replica.quorum.election_timeout_at(replica.now_ms)
    if replica.is_shutting_down:
        return None
    is_alone = replica.history.voters.is_only(replica.settings.key)
    if is_alone or replica.now_ms >= state.election_at_ms:
        replica.prospect()
        return None
    _fetch_from_any(replica)
    return state.election_at_ms


def _poll_voter(replica: Replica, follower: Follower) -> int | None:
    if replica.is_shutting_down:
        return None
    if replica.now_ms >= follower.fetch_until_ms:
        _tell_lost(replica, follower)
        replica.prospect()
        return None
    if replica.now_ms >= follower.update_voter_at_ms and _is_described_wrongly(replica, follower):
        _send_and_wait_period(replica, follower, _update_voter_request(replica))
    _fetch(replica, follower)
    return _earliest(follower.fetch_until_ms, _next_period(replica, follower))


def _poll_observer(replica: Replica, follower: Follower) -> int | None:
    if replica.is_shutting_down:
        return None
    if replica.now_ms >= follower.fetch_until_ms:
        _tell_lost(replica, follower)
        replica.unattach(replica.quorum.epoch, follower.leader_id)
        return None
    settings = replica.settings
    joins = settings.auto_join and settings.can_be_voter and replica.history.can_change
    if joins and replica.now_ms >= follower.update_voter_at_ms:
        _send_and_wait_period(replica, follower, _join_request(replica))
    _fetch(replica, follower)
    return _earliest(follower.fetch_until_ms, _next_period(replica, follower) if joins else None)


def _tell_lost(replica: Replica, follower: Follower) -> None:
    if not follower.has_ended:
        silent_ms = replica.now_ms - follower.heard_at_ms
        lost = LostLeader(follower.leader_id, silent_ms, follower.is_refused)
        replica.effects.lost_leader = lost


def _next_period(replica: Replica, follower: Follower) -> int | None:
    due_ms = follower.update_voter_at_ms
    return due_ms if due_ms > replica.now_ms else None


def _leader_node(replica: Replica, follower: Follower) -> Node | None:
    return node_at(follower.leader_id, follower.leader_endpoints, replica.settings.listener)


def _fetch(replica: Replica, follower: Follower) -> None:
    """Fetch from the leader; while it does not answer, ask other nodes whether there is a new
    one."""
    node = _leader_node(replica, follower)
    if node is None or replica.connections.is_resting(node.id):
        _fetch_from_any(replica)
    elif replica.connections.has_any_in_flight():
        return
    elif follower.fetching is not None:
        if not follower.fetching.is_complete:
            snapshot, position = follower.fetching.snapshot, follower.fetching.position
            epoch = replica.quorum.epoch
            request = wire.fetch_snapshot_request(replica.settings, epoch, snapshot, position)
            replica.send(node, request)
    elif replica.is_durable():
        replica.send(node, _fetch_request(replica))


def _fetch_from_any(replica: Replica) -> None:
    if not replica.is_durable():
        return
    node = replica.connections.pick(_who_may_know(replica))
    if node is not None:
        replica.send(node, _fetch_request(replica))


def _who_may_know(replica: Replica) -> list[Node]:
    """Return the bootstrap servers and the voters: a list of servers gets old as voters change."""
    settings, voters = replica.settings, replica.history.voters
    known = [*settings.bootstrap, *(voters.node(each, settings.listener) for each in voters.ids)]
    by_address = {(node.host, node.port): node for node in known if node is not None}
    for _, host, port in settings.endpoints:
        by_address.pop((host, port), None)
    return list(by_address.values())


def _fetch_request(replica: Replica) -> Message:
    epoch, end = replica.quorum.epoch, replica.log.end
    return wire.fetch_request(replica.settings, epoch, end, replica.high_watermark)


def _is_described_wrongly(replica: Replica, follower: Follower) -> bool:
    """True if the log has other endpoints or versions of this voter or, with static voters,
    none."""
    if replica.history.can_change:
        return replica.history.voters.is_outdated(replica.settings.local_voter)
    return not follower.has_updated_leader


def _send_and_wait_period(replica: Replica, follower: Follower, request: Message) -> None:
    if replica.send_if_ready(_leader_node(replica, follower), request):
        period_ms = replica.settings.update_voter_period_ms
        follower.update_voter_at_ms = replica.now_ms + period_ms


def _update_voter_request(replica: Replica) -> Message:
    settings = replica.settings
    return UpdateRaftVoterRequest(
        cluster_id=settings.cluster_id,
        current_leader_epoch=replica.quorum.epoch,
        voter_id=settings.key.id,
        voter_directory_id=settings.key.directory_bytes,
        listeners=[Listener(name=n, host=h, port=p) for n, h, p in settings.endpoints],
        k_raft_version_feature=KRaftVersionFeature(
            min_supported_version=SUPPORTED_KRAFT_VERSIONS.lowest,
            max_supported_version=SUPPORTED_KRAFT_VERSIONS.highest,
        ),
    )


def _join_request(replica: Replica) -> Message:
    """Return the request to become a voter. A node that lost its disk first removes its former
    voter."""
    settings = replica.settings
    former = replica.history.voters.get(settings.key.id)
    if former is not None:
        return RemoveRaftVoterRequest(
            cluster_id=settings.cluster_id,
            voter_id=former.key.id,
            voter_directory_id=former.key.directory_bytes,
        )
    return AddRaftVoterRequest(
        cluster_id=settings.cluster_id,
        timeout_ms=settings.request_timeout_ms,
        voter_id=settings.key.id,
        voter_directory_id=settings.key.directory_bytes,
        listeners=[AddListener(name=n, host=h, port=p) for n, h, p in settings.endpoints],
        ack_when_committed=False,
    )
