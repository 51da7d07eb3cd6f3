"""Prospective: asks whether it could win, before it starts an election that disturbs others."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.raft.ballot import Ballot
from ottla.raft.election_state import ElectionState
from ottla.raft.ids import Endpoints, ReplicaKey
from ottla.raft.states.unattached import grants_vote


@dataclass(slots=True)
class Prospective:
    election: ElectionState
    """Unchanged: a pre-vote is in the epoch that there is."""
    leader_endpoints: Endpoints
    ballot: Ballot
    give_up_at_ms: int

    def grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return grants_vote(self.election, candidate, up_to_date=up_to_date, pre_vote=pre_vote)
