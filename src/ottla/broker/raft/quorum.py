"""The state of this replica and its possible transitions.

    Unattached   -> Unattached   another epoch, or a vote given in this one
                    Prospective  the election timeout passed
                    Follower     the leader of this or a later epoch is known
    Prospective  -> Candidate    a majority would vote for it
                    Unattached   another epoch; or no majority would, and no leader is known
                    Follower     a leader is known: that of a later epoch, or still the last one
    Candidate    -> Leader       a majority voted for it
                    Prospective  the election timeout passed
                    Unattached, Follower   another epoch
    Leader       -> Resigned     it shuts down, was removed, or no majority fetches from it
                    Unattached, Follower   another epoch
    Resigned     -> Unattached, Follower   another epoch; its own next one after a while
    Follower     -> Prospective  no fetch succeeded within the fetch timeout
                    Unattached   another epoch; an observer that lost its leader
                    Follower     the leader of a later epoch, or more endpoints of the same one

Observers are only ever unattached or followers. The epoch never decreases, and a vote or leader
once known in an epoch is never replaced by another in that epoch.
"""

from __future__ import annotations

from random import Random

from ottla.broker.raft.ballot import Ballot
from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.errors import RaftFault
from ottla.broker.raft.ids import NO_LEADER, Endpoints, OffsetAndEpoch, ReplicaKey
from ottla.broker.raft.settings import RaftSettings
from ottla.broker.raft.states.candidate import Candidate
from ottla.broker.raft.states.follower import Follower
from ottla.broker.raft.states.leader import Leader
from ottla.broker.raft.states.prospective import Prospective
from ottla.broker.raft.states.resigned import Resigned
from ottla.broker.raft.states.unattached import Unattached
from ottla.broker.raft.voters.history import VoterHistory

State = Unattached | Prospective | Candidate | Follower | Leader | Resigned


class Quorum:
    def __init__(
        self,
        settings: RaftSettings,
        history: VoterHistory,
        random: Random,
        election: ElectionState,
        log_end: OffsetAndEpoch,
        now_ms: int,
    ) -> None:
        self._settings = settings
        self._history = history
        self._random = random
        self.state = self._first_state(election, log_end, now_ms)

    @property
    def election(self) -> ElectionState:
        return self.state.election

    @property
    def epoch(self) -> int:
        return self.state.election.epoch

    @property
    def leader_id(self) -> int:
        return self.state.election.leader_id

    @property
    def is_voter(self) -> bool:
        return self._history.voters.includes(self._settings.key)

    @property
    def may_stand(self) -> bool:
        return self._history.may_stand(self._settings.key)

    def _first_state(self, election: ElectionState, log_end: OffsetAndEpoch, now_ms: int) -> State:
        """Return the state in which the last run ended, as far as it is known."""
        own = self._settings.key
        timeout_at_ms = self.election_timeout_at(now_ms)
        if election.epoch < log_end.epoch:
            return Unattached(ElectionState(log_end.epoch), timeout_at_ms)
        voted = election.voted
        voted_self = voted is not None and voted.matches(own) and not election.has_leader
        if election.leader_id == own.id or (voted_self and election.epoch == log_end.epoch):
            # The second case: it was elected, and stopped after writing records but before
            # `quorum-state` was durable.
            led = ElectionState(election.epoch, own.id, election.voted)
            keys = [voter.key for voter in self._history.voters if voter.key.id != own.id]
            return Resigned(led, self._settings.endpoints, timeout_at_ms, keys)
        if voted_self and self.may_stand:
            ballot = Ballot(self._history.voters, own.id)
            return Candidate(election, ballot, timeout_at_ms)
        endpoints = self._history.voters.endpoints(election.leader_id)
        if election.has_leader and endpoints:
            return self._follower(election, endpoints, now_ms)
        return Unattached(election, timeout_at_ms)

    def election_timeout_at(self, now_ms: int) -> int:
        """Return a time between one and two timeouts from now, so that not all voters stand at
        once."""
        timeout_ms = self._settings.election_timeout_ms
        return now_ms + timeout_ms + self._random.randrange(timeout_ms)

    def unattach(self, epoch: int, leader_id: int, now_ms: int) -> None:
        """Move to a later epoch; or stay in the same one, after a failed pre-vote or as an
        observer."""
        at_ms = self._unattached_timeout(now_ms)
        voted = self.election.voted if epoch == self.epoch else None
        self._go(Unattached(ElectionState(epoch, leader_id, voted), at_ms))

    def _unattached_timeout(self, now_ms: int) -> int | None:
        """Return the time of the next election. The remaining time is kept, so that epochs that
        rise elsewhere do not delay an election."""
        state = self.state
        if not self.may_stand:
            return None
        if isinstance(state, Unattached) and state.election_at_ms is not None:
            return state.election_at_ms
        if isinstance(state, Candidate):
            return state.give_up_at_ms
        if isinstance(state, Prospective) and not state.ballot.is_lost:
            return state.give_up_at_ms
        if isinstance(state, Resigned):
            return state.leave_at_ms
        return self.election_timeout_at(now_ms)

    def vote_for(self, candidate: ReplicaKey, now_ms: int) -> None:
        """Vote, and restart the election timeout: the candidate has at least as good a chance as
        this node."""
        state = self.state
        election = ElectionState(self.epoch, self.leader_id, candidate)
        at_ms = self.election_timeout_at(now_ms)
        if isinstance(state, Unattached):
            self._go(Unattached(election, at_ms if self.may_stand else None))
        elif isinstance(state, Prospective):
            ballot = Ballot(self._history.voters, self._settings.key.id)
            self._go(Prospective(election, state.leader_endpoints, ballot, at_ms))
        else:
            raise RaftFault(f"a vote for {candidate} was granted in {state}")

    def random_backoff_ms(self) -> int:
        """Return a random time between a quarter of the maximum and the maximum."""
        longest_ms = self._settings.election_backoff_max_ms
        return self._random.randint(longest_ms // 4, longest_ms)

    def follow(self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int) -> None:
        if leader_id == self._settings.key.id:
            raise RaftFault(f"this node was told to follow itself in epoch {epoch}")
        voted = self.election.voted if epoch == self.epoch else None
        self._go(self._follower(ElectionState(epoch, leader_id, voted), endpoints, now_ms))

    def _follower(self, election: ElectionState, endpoints: Endpoints, now_ms: int) -> Follower:
        return Follower(
            election,
            endpoints,
            fetch_until_ms=now_ms + self._settings.fetch_timeout_ms,
            heard_at_ms=now_ms,
            update_voter_at_ms=now_ms + self._settings.update_voter_period_ms,
        )

    def prospect(self, now_ms: int) -> None:
        state = self.state
        ballot = Ballot(self._history.voters, self._settings.key.id)
        self._go(
            Prospective(
                state.election, state.leader_endpoints, ballot, self.election_timeout_at(now_ms)
            )
        )

    def stand(self, now_ms: int) -> None:
        own = self._settings.key
        election = ElectionState(self.epoch + 1, NO_LEADER, own)
        ballot = Ballot(self._history.voters, own.id)
        self._go(Candidate(election, ballot, self.election_timeout_at(now_ms)))

    def lead(self, start_offset: int, now_ms: int) -> Leader:
        candidate = self.state
        if not isinstance(candidate, Candidate) or not candidate.ballot.is_won:
            raise RaftFault(f"leading epoch {self.epoch} without having won it: {candidate}")
        own = self._settings.key
        leader = Leader(
            self._settings,
            ElectionState(self.epoch, own.id, candidate.election.voted),
            self._history.voters,
            candidate.ballot.granting,
            start_offset,
            now_ms,
        )
        self._go(leader)
        return leader

    def resign(self, now_ms: int) -> None:
        leader = self.state
        if not isinstance(leader, Leader):
            raise RaftFault(f"resigning from epoch {self.epoch} without leading it: {leader}")
        at_ms = self.election_timeout_at(now_ms)
        self._go(Resigned(leader.election, leader.leader_endpoints, at_ms, leader.successors()))

    def _go(self, state: State) -> None:
        before, after = self.election, state.election
        if after.epoch < before.epoch:
            raise RaftFault(f"the epoch would fall from {before.epoch} to {after.epoch}")
        if after.epoch == before.epoch:
            if before.has_leader and after.leader_id != before.leader_id:
                raise RaftFault(f"epoch {after.epoch} would get a second leader: {before}, {after}")
            if before.voted is not None and after.voted != before.voted:
                raise RaftFault(f"a second vote in epoch {after.epoch}: {before}, {after}")
        self.state = state
