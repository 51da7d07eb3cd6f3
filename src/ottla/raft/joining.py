"""What a follower does with the leader's answer about its own place among the voters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from ottla.raft import responses
from ottla.raft.ids import Endpoint, Endpoints

if TYPE_CHECKING:
    from ottla.raft.replica import Replica


def updated(replica: Replica, response: UpdateRaftVoterResponse) -> bool:
    told = response.current_leader
    endpoints: Endpoints = ()
    if told.host:
        endpoints = (Endpoint(replica.settings.listener, told.host, told.port),)
    error = response.error_code
    if error == ErrorCode.UNSUPPORTED_VERSION:
        error = ErrorCode.NONE  # the leader cannot write it down, but has heard it
    handled = responses.learn(replica, error, told.leader_epoch, told.leader_id, endpoints)
    follower = replica.follower
    if handled is not None or follower is None:
        return bool(handled)
    follower.has_updated_leader = True
    follower.fetch_succeeded(replica.now_ms + replica.settings.fetch_timeout_ms)
    return True


def is_no_fault(error: int) -> bool:
    """The leader did it, cannot do it yet, or had done it: nothing is wrong with the way to it."""
    return error in (
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.VOTER_NOT_FOUND,
    )
