"""Unattached: in an epoch whose leader is not known, or cannot be reached; perhaps after a vote."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.raft.election_state import ElectionState
from ottla.raft.ids import Endpoints, ReplicaKey


@dataclass(slots=True)
class Unattached:
    election: ElectionState
    election_at_ms: int | None
    """When to stand for election; None for observers, who never do."""

    @property
    def leader_endpoints(self) -> Endpoints:
        return ()

    def grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return grants_vote(self.election, candidate, up_to_date=up_to_date, pre_vote=pre_vote)


def grants_vote(
    election: ElectionState, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool
) -> bool:
    """One vote an epoch, and none against a leader that was elected. A pre-vote binds nobody."""
    if pre_vote:
        return up_to_date
    if election.voted is not None:
        return election.voted.matches(candidate)
    return up_to_date and not election.has_leader
