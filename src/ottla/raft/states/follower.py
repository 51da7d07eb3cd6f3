"""Follower: knows the leader of its epoch and fetches from it."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.raft.election_state import ElectionState
from ottla.raft.ids import Endpoints, OffsetAndEpoch, ReplicaKey


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot on its way here; the log waits until it is stored."""

    snapshot: OffsetAndEpoch
    position: int = 0
    is_complete: bool = False


@dataclass(slots=True)
class Follower:
    election: ElectionState
    leader_endpoints: Endpoints
    fetch_until_ms: int
    """Without a successful fetch until then, the leader counts as lost."""
    update_voter_at_ms: int
    has_fetched: bool = False
    """The leader answered at least once: who says it is gone is not believed."""
    has_updated_leader: bool = False
    """The leader was told endpoints and versions; it cannot look up those of static voters."""
    fetching: SnapshotFetch | None = None

    @property
    def leader_id(self) -> int:
        return self.election.leader_id

    def grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and up_to_date and not self.has_fetched

    def fetch_succeeded(self, until_ms: int) -> None:
        self.fetch_until_ms = until_ms
        self.has_fetched = True
