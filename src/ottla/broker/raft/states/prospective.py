"""Prospective: asks whether it could win, before it starts an election that disturbs others."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.raft.ballot import Ballot
from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.ids import Endpoints, ReplicaKey
from ottla.broker.raft.states.unattached import grants_vote


@dataclass(slots=True)
class Prospective:
    election: ElectionState
    """Unchanged: a pre-vote does not start an epoch."""
    leader_endpoints: Endpoints
    ballot: Ballot
    give_up_at_ms: int

    def grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return grants_vote(self.election, candidate, up_to_date=up_to_date, pre_vote=pre_vote)
