"""Candidate: has started an epoch, voted for itself and asks the others for votes."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.raft.ballot import Ballot
from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.ids import Endpoints, ReplicaKey


@dataclass(slots=True)
class Candidate:
    election: ElectionState
    ballot: Ballot
    give_up_at_ms: int

    @property
    def leader_endpoints(self) -> Endpoints:
        return ()

    def grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and up_to_date
