"""Unattached: in an epoch whose leader is not known, or cannot be reached; perhaps after a vote."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.ids import Endpoints, ReplicaKey


@dataclass(slots=True)
class Unattached:
    election: ElectionState
    election_at_ms: int | None
    """When to stand for election; None for observers, which never do."""

    @property
    def leader_endpoints(self) -> Endpoints:
        return ()

    def grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return grants_vote(self.election, candidate, up_to_date=up_to_date, pre_vote=pre_vote)


def grants_vote(
    election: ElectionState, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool
) -> bool:
    """Grant one vote in an epoch, and none once a leader is elected. A pre-vote does not bind."""
    if pre_vote:
        return up_to_date
    if election.voted is not None:
        return election.voted.matches(candidate)
    return up_to_date and not election.has_leader
