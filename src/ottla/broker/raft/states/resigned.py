"""Resigned: was the leader of this epoch, and tells the others that it no longer is.

A leader that restarts begins here: it must not vote in the epoch it led, nor lead it again, because
its unflushed records are gone and other records would take the same offsets in the same epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.ids import Endpoints, ReplicaKey


@dataclass(slots=True)
class Resigned:
    election: ElectionState
    leader_endpoints: Endpoints
    leave_at_ms: int
    """When this replica moves to the next epoch."""
    successors: list[ReplicaKey]
    """The voters, those with the longest log first."""
    told: set[int] = field(default_factory=set)

    def grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and up_to_date
