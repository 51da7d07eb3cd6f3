"""The core of the quorum: it changes only through `handle(event, now) -> effects`.

It has no thread, no clock and no socket. A driver passes in what happened (a request came, the log
was flushed, time passed), in any order and one event at a time, and then carries out the effects.
Randomness is an argument, so the same events at the same times give the same effects.
"""

from __future__ import annotations

from random import Random

from ottla.broker.raft import (
    describing,
    epochs,
    fetching,
    following,
    joining,
    leading,
    polling,
    snapshots,
    voting,
)
from ottla.broker.raft.connections import Sent
from ottla.broker.raft.effects import Effects
from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.events import (
    Event,
    LogAppended,
    LogFlushed,
    RequestFailed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    ShutdownRequested,
    SnapshotRefused,
    SnapshotStored,
    Stalled,
    TimePassed,
)
from ottla.broker.raft.ids import NO_LEADER
from ottla.broker.raft.log_view import LogView
from ottla.broker.raft.quorum import State
from ottla.broker.raft.replica import Replica
from ottla.broker.raft.settings import RaftSettings
from ottla.broker.raft.states.leader import Leader
from ottla.broker.raft.voters import changes as voter_changes
from ottla.broker.raft.voters.voters import VoterSet
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ottla.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from ottla.protocol.messages.vote import VoteRequest, VoteResponse
from ottla.protocol.schema import Message


class RaftCore:
    """Create it with the state of the last run: the log, and the content of `quorum-state` if there
    is one. Then pass in `TimePassed` to begin."""

    def __init__(
        self,
        settings: RaftSettings,
        log: LogView,
        quorum_state: bytes | None,
        random: Random,
        now_ms: int,
    ) -> None:
        election = ElectionState.from_bytes(quorum_state) if quorum_state else ElectionState()
        self._replica = Replica(settings, log, election, random, now_ms)

    # State that the driver may read

    @property
    def epoch(self) -> int:
        return self._replica.quorum.epoch

    @property
    def leader_id(self) -> int:
        """The leader's id; -1 if it is not known."""
        return self._replica.quorum.leader_id

    @property
    def is_leader(self) -> bool:
        """True if the driver may append in this epoch."""
        return isinstance(self.state, Leader)

    @property
    def is_voter(self) -> bool:
        return self._replica.quorum.is_voter

    @property
    def state(self) -> State:
        return self._replica.quorum.state

    @property
    def high_watermark(self) -> int | None:
        return self._replica.high_watermark

    @property
    def voters(self) -> VoterSet:
        return self._replica.history.voters

    def voter_sets(self) -> list[tuple[int, VoterSet]]:
        """Return all voter sets in the log by offset, and the one before them from a snapshot."""
        return self._replica.history.sets()

    def voters_at(self, offset: int) -> VoterSet:
        """Return the voters for a snapshot whose last record is at this offset."""
        return self._replica.history.voters_at(offset)

    def kraft_version_at(self, offset: int) -> int:
        return self._replica.history.kraft_version_at(offset)

    # Events

    def handle(self, event: Event, now_ms: int) -> Effects:
        """Process an event and return its effects. `now_ms` is monotonic."""
        replica = self._replica
        replica.now_ms = max(replica.now_ms, now_ms)
        self._dispatch(event)
        wake_at_ms = polling.poll(replica)
        effects = replica.finish_effects()
        effects.wake_at_ms = wake_at_ms
        effects.is_shut_down = self._is_shut_down()
        return effects

    def _dispatch(self, event: Event) -> None:
        replica = self._replica
        match event:
            case RequestReceived():
                self._request(event, event.message)
            case ResponseReceived(correlation_id, message):
                self._response(correlation_id, message)
            case RequestFailed(correlation_id, error, refused):
                self._failure(correlation_id, error, refused=refused)
            case Stalled(late_ms):
                polling.extend(replica, late_ms)
            case LogAppended():
                leading.log_appended(replica)
            case LogFlushed():
                leading.log_flushed(replica)
            case SnapshotStored(snapshot):
                snapshots.stored(replica, snapshot)
            case SnapshotRefused(snapshot):
                snapshots.refused(replica, snapshot)
            case ResignRequested(epoch):
                if isinstance(self.state, Leader) and epoch == self.epoch:
                    self.state.must_resign = True
            case ShutdownRequested():
                replica.is_shutting_down = True
            case TimePassed():
                replica.request_flush()

    def _request(self, event: RequestReceived, message: Message) -> None:
        replica = self._replica
        match message:
            case FetchRequest():
                fetching.handle(replica, event, message)
            case VoteRequest():
                voting.handle(replica, event, message)
            case BeginQuorumEpochRequest():
                epochs.handle_begin(replica, event, message)
            case EndQuorumEpochRequest():
                epochs.handle_end(replica, event, message)
            case FetchSnapshotRequest():
                snapshots.handle(replica, event, message)
            case DescribeQuorumRequest():
                describing.handle(replica, event, message)
            case AddRaftVoterRequest():
                voter_changes.add(replica, event, message)
            case RemoveRaftVoterRequest():
                voter_changes.remove(replica, event, message)
            case UpdateRaftVoterRequest():
                voter_changes.update_voter(replica, event, message)
            case _:
                raise TypeError(f"the quorum does not serve {type(message).__name__}")

    def _response(self, correlation_id: int, message: Message) -> None:
        sent = self._replica.connections.take(correlation_id)
        if sent is not None and not self._answered(sent, message):
            self._replica.connections.rest(sent.destination.id, self._replica.now_ms)

    def _answered(self, sent: Sent, message: Message) -> bool:
        replica, source = self._replica, sent.destination.id
        match sent.message, message:
            case FetchRequest(), FetchResponse():
                return following.fetched(replica, message)
            case VoteRequest() as asked, VoteResponse():
                return voting.answered(replica, source, asked, message)
            case BeginQuorumEpochRequest(), BeginQuorumEpochResponse():
                return epochs.answered(replica, source, message)
            case EndQuorumEpochRequest(), EndQuorumEpochResponse():
                return epochs.answered(replica, source, message)
            case FetchSnapshotRequest(), FetchSnapshotResponse():
                return snapshots.fetched(replica, message)
            case ApiVersionsRequest(), ApiVersionsResponse():
                return voter_changes.versions_known(replica, source, message)
            case UpdateRaftVoterRequest(), UpdateRaftVoterResponse():
                return joining.updated(replica, message)
            case AddRaftVoterRequest(), AddRaftVoterResponse():
                return joining.is_no_fault(message.error_code)
            case RemoveRaftVoterRequest(), RemoveRaftVoterResponse():
                return joining.is_no_fault(message.error_code)
        raise TypeError(f"{type(message).__name__} answers no {type(sent.message).__name__}")

    def _failure(self, correlation_id: int, error: ErrorCode, *, refused: bool) -> None:
        sent = self._replica.connections.take(correlation_id)
        if sent is None:
            return
        if refused and isinstance(sent.message, FetchRequest | FetchSnapshotRequest):
            following.refused(self._replica, sent.destination.id)
        self._replica.connections.rest(sent.destination.id, self._replica.now_ms)
        if isinstance(sent.message, VoteRequest):
            voting.answered(
                self._replica, sent.destination.id, sent.message, VoteResponse(error_code=error)
            )
        elif isinstance(sent.message, ApiVersionsRequest):
            refusal = ApiVersionsResponse(error_code=error)
            voter_changes.versions_known(self._replica, sent.destination.id, refusal)

    def _is_shut_down(self) -> bool:
        replica = self._replica
        if not replica.is_shutting_down:
            return False
        own = replica.settings.key
        knows_successor = replica.quorum.leader_id not in (NO_LEADER, own.id)
        return knows_successor or not self.is_voter or self.voters.is_only(own)
