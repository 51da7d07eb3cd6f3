"""How a replica is set up: who it is, whom it asks first, and how long it waits.

The names and defaults of the times are Kafka's `controller.quorum.*`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.raft.ids import Endpoints, Node, ReplicaKey
from ottla.raft.voters import VersionRange, Voter, VoterSet

KRAFT_VERSION_FEATURE = "kraft.version"
SUPPORTED_KRAFT_VERSIONS = VersionRange(0, 1)
CHECK_QUORUM_FACTOR = 1.5
"""A follower that fetches in time needs some of it for the way and for its disk."""


@dataclass(frozen=True, slots=True)
class RaftSettings:
    key: ReplicaKey
    """This node, with the id of its metadata directory."""
    cluster_id: str
    listener: str
    """The listener by which controllers talk to each other."""
    endpoints: Endpoints = ()
    """Where the others reach this node."""
    static_voters: VoterSet = field(default_factory=VoterSet)
    """`controller.quorum.voters`; counts while no set of voters is in the log."""
    bootstrap: tuple[Node, ...] = ()
    """Whom to ask for the leader as long as it is not known: bootstrap servers or static voters."""
    can_be_voter: bool = True
    """A controller, in contrast to a broker. It flushes before it asks for more even while it is
    an observer, because the leader may count it as a voter before it knows of it."""
    auto_join: bool = False
    """An observer that can be a voter asks the leader to become one."""

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 * 1024 * 1024
    fetch_snapshot_max_bytes: int = 8 * 1024 * 1024
    update_voter_period_ms: int = 4_000
    """How often a follower looks whether the voters in the log describe it as it is."""

    @property
    def check_quorum_ms(self) -> int:
        return int(self.fetch_timeout_ms * CHECK_QUORUM_FACTOR)

    @property
    def announce_period_ms(self) -> int:
        return self.fetch_timeout_ms // 2

    @property
    def local_voter(self) -> Voter:
        return Voter(self.key, self.endpoints, SUPPORTED_KRAFT_VERSIONS)
