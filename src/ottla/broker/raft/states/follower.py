"""Follower: knows the leader of its epoch and fetches from it."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.ids import Endpoints, OffsetAndEpoch, ReplicaKey


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot that is being fetched; the log waits until it is stored."""

    snapshot: OffsetAndEpoch
    position: int = 0
    is_complete: bool = False


@dataclass(slots=True)
class Follower:
    election: ElectionState
    leader_endpoints: Endpoints
    fetch_until_ms: int
    """Without a successful fetch until then, the leader counts as lost."""
    heard_at_ms: int
    """When it last answered, or was first heard of."""
    update_voter_at_ms: int
    has_fetched: bool = False
    """True if the leader answered at least once: claims that it is gone are not believed."""
    has_updated_leader: bool = False
    """True if the leader was told endpoints and versions; it cannot look up those of static
    voters."""
    is_refused: bool = False
    """True if no process listens at the leader's address."""
    has_ended: bool = False
    """True if the leader itself announced that it leaves."""
    fetching: SnapshotFetch | None = None

    @property
    def leader_id(self) -> int:
        return self.election.leader_id

    def grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and up_to_date and not self.has_fetched

    def fetch_succeeded(self, now_ms: int, timeout_ms: int) -> None:
        self.heard_at_ms = now_ms
        self.fetch_until_ms = now_ms + timeout_ms
        self.has_fetched = True
        self.is_refused = False
