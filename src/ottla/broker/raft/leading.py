"""A leader's work besides serving fetches: begin its epoch, commit, and stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.raft import fetching
from ottla.broker.raft.errors import RaftFault
from ottla.broker.raft.log_view import ControlRecord
from ottla.broker.raft.states.leader import Leader
from ottla.broker.raft.voters import changes as voter_changes
from ottla.protocol.control_records.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.control_records.leader_change_message import LeaderChangeMessage, Voter
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.raft.replica import Replica


def write_first_records(replica: Replica) -> None:
    """Write a record of its own epoch, without which a leader commits nothing, and the voters if
    the log's are outdated."""
    leader = replica.quorum.state
    assert isinstance(leader, Leader)
    history = replica.history
    records: list[ControlRecord] = [leader_change(replica, leader)]
    if history.can_change:
        if history.voters_offset is None:
            raise RaftFault("kraft.version is 1, but neither log nor snapshot has the voters")
        own = replica.settings.local_voter
        if history.voters_offset < 0 or history.voters.is_outdated(own):
            updated = history.voters.with_updated(own)
            assert updated is not None, "only voters are elected"
            version = KRaftVersionRecord(k_raft_version=history.kraft_version)
            records += [version, updated.to_record()]
    replica.log.append_control(records, replica.quorum.epoch)
    replica.log_grew()


def leader_change(replica: Replica, leader: Leader) -> LeaderChangeMessage:
    """Return the record. Directories are included from version 1 on, which goes with changeable
    voters."""
    is_dynamic = replica.history.can_change

    def voter(voter_id: int) -> Voter:
        known = replica.history.voters.get(voter_id)
        if known is None or not is_dynamic:
            return Voter(voter_id=voter_id)
        return Voter(voter_id=voter_id, voter_directory_id=known.key.directory_bytes)

    return LeaderChangeMessage(
        version=int(is_dynamic),
        leader_id=replica.settings.key.id,
        voters=[voter(each) for each in replica.history.voters.ids],
        granting_voters=[voter(each) for each in leader.granting],
    )


def log_appended(replica: Replica) -> None:
    """The driver appended records of the epoch: answer the fetches that wait for them."""
    replica.history.skip_to_end()
    replica.request_flush()
    if isinstance(replica.quorum.state, Leader):
        fetching.answer_with_new_records(replica)


def log_flushed(replica: Replica) -> None:
    leader = replica.quorum.state
    if isinstance(leader, Leader) and leader.flushed(replica.log.flushed_offset):
        replica.high_watermark_moved(leader)
    replica.request_flush()


def high_watermark_moved(replica: Replica, leader: Leader) -> None:
    assert leader.high_watermark is not None
    replica.committed(leader.high_watermark)
    voter_changes.finish_if_committed(replica, leader)
    fetching.answer_all(replica)


def turn_away(replica: Replica) -> None:
    """Refuse the requests that wait at a leader that stops leading: they ask the next one."""
    leader = replica.quorum.state
    assert isinstance(leader, Leader)
    voter_changes.conclude(replica, leader, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    fetching.refuse_all(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
