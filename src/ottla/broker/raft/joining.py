"""A follower's processing of responses about its own membership in the voters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.raft import responses
from ottla.broker.raft.ids import Endpoint, Endpoints
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.update_raft_voter import UpdateRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.raft.replica import Replica


def updated(replica: Replica, response: UpdateRaftVoterResponse) -> bool:
    told = response.current_leader
    endpoints: Endpoints = ()
    if told.host:
        endpoints = (Endpoint(replica.settings.listener, told.host, told.port),)
    error = response.error_code
    if error == ErrorCode.UNSUPPORTED_VERSION:
        error = ErrorCode.NONE  # the leader cannot record it, but knows it now
    handled = responses.learn(replica, error, told.leader_epoch, told.leader_id, endpoints)
    follower = replica.follower
    if handled is not None or follower is None:
        return bool(handled)
    follower.has_updated_leader = True
    follower.fetch_succeeded(replica.now_ms, replica.settings.fetch_timeout_ms)
    return True


def is_no_fault(error: int) -> bool:
    """True if the leader did it, cannot do it yet, or had already done it: its connection works."""
    return error in (
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.VOTER_NOT_FOUND,
    )
