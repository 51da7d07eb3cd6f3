"""The setup of a replica: its identity, the nodes it asks first, and its time-outs.

The names and defaults of the times are Kafka's `controller.quorum.*`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.broker.raft.ids import Endpoints, Node, ReplicaKey
from ottla.broker.raft.voters.voters import VersionRange, Voter, VoterSet

KRAFT_VERSION_FEATURE = "kraft.version"
SUPPORTED_KRAFT_VERSIONS = VersionRange(0, 1)
CHECK_QUORUM_FACTOR = 1.5
"""More than 1, because a follower that fetches in time needs some of it for the network and its
disk."""


@dataclass(frozen=True, slots=True)
class RaftSettings:
    key: ReplicaKey
    """This node, with the id of its metadata directory."""
    cluster_id: str
    listener: str
    """The listener for communication between controllers."""
    endpoints: Endpoints = ()
    """This node's addresses for the others."""
    static_voters: VoterSet = field(default_factory=VoterSet)
    """`controller.quorum.voters`; counts while no set of voters is in the log."""
    bootstrap: tuple[Node, ...] = ()
    """The nodes to ask for the leader while it is not known: bootstrap servers or static voters."""
    can_be_voter: bool = True
    """True for a controller, False for a broker. A controller flushes before it fetches more even
    while it is an observer, because the leader may count it as a voter before it knows."""
    auto_join: bool = False
    """True if an observer that can be a voter asks the leader to become one."""

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 * 1024 * 1024
    fetch_snapshot_max_bytes: int = 8 * 1024 * 1024
    update_voter_period_ms: int = 4_000
    """How often a follower checks whether the voters in the log describe it correctly."""

    @property
    def check_quorum_ms(self) -> int:
        return int(self.fetch_timeout_ms * CHECK_QUORUM_FACTOR)

    @property
    def announce_period_ms(self) -> int:
        return self.fetch_timeout_ms // 2

    @property
    def local_voter(self) -> Voter:
        return Voter(self.key, self.endpoints, SUPPORTED_KRAFT_VERSIONS)
