"""A replica of the metadata log: its parts, and the actions of each transition.

The handlers beside this module (`voting`, `epochs`, `fetching`, ...) are functions on it.
"""

from __future__ import annotations

from random import Random

from ottla.broker.raft import leading
from ottla.broker.raft.connections import Connections
from ottla.broker.raft.delayed_fetches import DelayedFetches
from ottla.broker.raft.effects import Answer, Effects, LeaderAndEpoch, Request
from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.errors import RaftFault
from ottla.broker.raft.ids import NO_LEADER, Endpoints, Node, OffsetAndEpoch, ReplicaKey
from ottla.broker.raft.log_view import LogView, has
from ottla.broker.raft.quorum import Quorum
from ottla.broker.raft.settings import RaftSettings
from ottla.broker.raft.states.candidate import Candidate
from ottla.broker.raft.states.follower import Follower
from ottla.broker.raft.states.leader import Leader
from ottla.broker.raft.states.prospective import Prospective
from ottla.broker.raft.states.resigned import Resigned
from ottla.broker.raft.voters.history import VoterHistory
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message


class Replica:
    def __init__(
        self,
        settings: RaftSettings,
        log: LogView,
        election: ElectionState,
        random: Random,
        now_ms: int,
    ) -> None:
        self.settings = settings
        self.log = log
        self.now_ms = now_ms
        snapshot = log.latest_snapshot
        if snapshot is not None and not has(log, snapshot):
            log.restart_at_snapshot(snapshot)  # a crash came between storing the snapshot and this
        self.history = VoterHistory(settings.static_voters, log)
        self.quorum = Quorum(settings, self.history, random, election, log.end, now_ms)
        self.connections = Connections(settings, random)
        self.delayed = DelayedFetches()
        self.effects = Effects()
        self.is_shutting_down = False
        self.high_watermark: int | None = None
        """The highest offset this replica ever knew to be committed; a new leader's own is known
        later."""
        if snapshot is not None:
            self.high_watermark = snapshot.offset
            self.history.committed(snapshot.offset)
        self._told_election: ElectionState | None = None
        self._told_leader: LeaderAndEpoch | None = None

    # Outgoing messages

    def answer(self, token: object, message: Message) -> None:
        self.effects.answers.append(Answer(token, message))

    def send(self, destination: Node, message: Message) -> None:
        correlation_id = self.connections.sent(destination, message, self.now_ms)
        self.effects.requests.append(Request(correlation_id, destination, message))

    def send_if_ready(self, destination: Node | None, message: Message) -> bool:
        if destination is None or not self.connections.is_ready(destination.id):
            return False
        self.send(destination, message)
        return True

    def finish_effects(self) -> Effects:
        """Return the effects of an event, with the state to persist and the present leader."""
        effects, self.effects = self.effects, Effects()
        election = self.quorum.election
        if election != self._told_election:
            self._told_election = election
            effects.persist = election.to_bytes(self.history.voters.ids, self.history.kraft_version)
        leader = LeaderAndEpoch(self._known_leader(), election.epoch)
        if leader != self._told_leader:
            self._told_leader = effects.leader = leader
        return effects

    def _known_leader(self) -> int:
        """Return the leader; none after a resignation, although this node was the leader of its
        epoch."""
        return NO_LEADER if isinstance(self.quorum.state, Resigned) else self.quorum.leader_id

    # Transitions

    def unattach(self, epoch: int, leader_id: int = NO_LEADER) -> None:
        self._leave()
        self.quorum.unattach(epoch, leader_id, self.now_ms)

    def follow(self, epoch: int, leader_id: int, endpoints: Endpoints) -> None:
        self._leave()
        self.quorum.follow(epoch, leader_id, endpoints, self.now_ms)

    def prospect(self) -> None:
        """Ask whether an election could be won. A single voter need not ask."""
        self._leave()
        self.quorum.prospect(self.now_ms)
        self.advance_election()

    def stand(self) -> None:
        self._leave()
        self.quorum.stand(self.now_ms)
        self.advance_election()

    def advance_election(self) -> None:
        """Become candidate or leader, if there are enough votes."""
        state = self.quorum.state
        if isinstance(state, Prospective) and state.ballot.is_won:
            self.stand()
        elif isinstance(state, Candidate) and state.ballot.is_won:
            self._lead()

    def _lead(self) -> None:
        self._leave()
        self.quorum.lead(self.log.end.offset, self.now_ms)
        leading.write_first_records(self)

    def resign(self) -> None:
        self._leave()
        self.quorum.resign(self.now_ms)

    def _leave(self) -> None:
        """Drop everything in flight and refuse what waits here: it belongs to the old state."""
        self.connections.reset()
        if isinstance(self.quorum.state, Leader):
            leading.turn_away(self)

    # Checks for all handlers

    def is_for_us(self, cluster_id: str | None) -> bool:
        return cluster_id is None or cluster_id == self.settings.cluster_id

    def is_own_key(self, voter_id: int, directory: bytes) -> bool:
        """True if the request is meant for this replica; older versions do not say for which they
        are."""
        return voter_id < 0 or ReplicaKey.of(voter_id, directory).matches(self.settings.key)

    def refuse_as_leader(self, epoch: int) -> ErrorCode | None:
        """Return why a request for the leader of this epoch cannot be served here."""
        if epoch < self.quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.quorum.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not isinstance(self.quorum.state, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.BROKER_NOT_AVAILABLE if self.is_shutting_down else None

    def refuse_as_voter(self, sender_id: int, epoch: int) -> ErrorCode | None:
        if epoch < self.quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.INVALID_REQUEST if sender_id < 0 else None

    def agrees(self, epoch: int, leader_id: int) -> bool:
        """True if no other leader of this epoch is known here."""
        if leader_id == self.settings.key.id:
            return isinstance(self.quorum.state, Leader) and epoch == self.quorum.epoch
        known = self.quorum.leader_id
        return epoch != self.quorum.epoch or NO_LEADER in (leader_id, known) or leader_id == known

    def learn(self, epoch: int, leader_id: int, endpoints: Endpoints) -> None:
        """Move to an epoch, and perhaps its leader, that another node told of, if it is new."""
        endpoints = endpoints or self.history.voters.endpoints(leader_id)
        quorum = self.quorum
        if epoch > quorum.epoch:
            if leader_id != NO_LEADER and endpoints:
                self.follow(epoch, leader_id, endpoints)
            else:
                self.unattach(epoch)
        elif epoch == quorum.epoch and leader_id != NO_LEADER:
            is_known = quorum.leader_id != NO_LEADER
            if len(endpoints) > (len(quorum.state.leader_endpoints) if is_known else 0):
                self.follow(epoch, leader_id, endpoints)

    # Progress

    def log_grew(self) -> None:
        """Handle an append: it must become durable, and may contain a new set of voters."""
        voters = self.history.voters
        self.history.catch_up()
        self.request_flush()
        state = self.quorum.state
        if isinstance(state, Leader) and self.history.voters != voters:
            state.change_voters(self.history.voters, self.now_ms)

    def request_flush(self) -> None:
        if self.log.flushed_offset < self.log.end.offset:
            self.effects.flush = True

    def is_durable(self) -> bool:
        """True if the log is durable, as far as required: a fetch for the next records implies that
        all before are safe here."""
        if not (self.settings.can_be_voter or self.quorum.is_voter):
            return True
        return self.log.flushed_offset >= self.log.end.offset

    def committed(self, offset: int) -> None:
        """Take over the high watermark, as far as this log goes."""
        offset = min(offset, self.log.end.offset)
        if self.high_watermark is None or offset > self.high_watermark:
            self.high_watermark = self.effects.high_watermark = offset
            self.history.committed(offset)

    def high_watermark_moved(self, leader: Leader) -> None:
        leading.high_watermark_moved(self, leader)

    def truncate(self, offset: int) -> None:
        self._keep_committed(offset)
        self.log.truncate(offset)
        self.history.truncate(offset)

    def restart_at(self, snapshot: OffsetAndEpoch) -> None:
        """Replace a log that lacks records of the snapshot by the snapshot."""
        self._keep_committed(snapshot.offset)
        self.log.restart_at_snapshot(snapshot)
        self.history.restart()
        self.request_flush()

    def _keep_committed(self, offset: int) -> None:
        if self.high_watermark is not None and offset < self.high_watermark:
            raise RaftFault(
                f"the leader {self.quorum.leader_id} of epoch {self.quorum.epoch} has another log "
                f"from offset {offset} on, but everything before {self.high_watermark} is committed"
            )

    @property
    def follower(self) -> Follower | None:
        state = self.quorum.state
        return state if isinstance(state, Follower) else None
