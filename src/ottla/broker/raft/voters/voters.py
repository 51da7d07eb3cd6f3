"""The set of voters: who elects, whose copies count, and what a majority of them is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.broker.raft.ids import Endpoint, Endpoints, Node, ReplicaKey, endpoints_of, node_at
from ottla.protocol.control_records import voters_record
from ottla.protocol.control_records.voters_record import VotersRecord


class VersionRange(NamedTuple):
    """The levels of `kraft.version` that a node supports."""

    lowest: int
    highest: int

    def includes(self, level: int) -> bool:
        return self.lowest <= level <= self.highest


class Voter(NamedTuple):
    key: ReplicaKey
    endpoints: Endpoints
    versions: VersionRange


class VoterSet:
    """Immutable; changes return a new set, or None if they do not apply."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters: Mapping[int, Voter] = {voter.key.id: voter for voter in sorted(voters)}

    @classmethod
    def static(cls, listener: str, nodes: Iterable[Node]) -> VoterSet:
        """Return the voters of `controller.quorum.voters`: ids and addresses, no directories."""
        return cls(
            Voter(
                ReplicaKey(node.id), (Endpoint(listener, node.host, node.port),), VersionRange(0, 0)
            )
            for node in nodes
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        return cls(
            Voter(
                ReplicaKey.of(voter.voter_id, voter.voter_directory_id),
                endpoints_of(voter.endpoints),
                VersionRange(
                    voter.k_raft_version_feature.min_supported_version,
                    voter.k_raft_version_feature.max_supported_version,
                ),
            )
            for voter in record.voters
        )

    def to_record(self) -> VotersRecord:
        return VotersRecord(voters=[_voter_in_record(voter) for voter in self])

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(voter.key.id) for voter in self)})"

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self._voters)

    @property
    def majority(self) -> int:
        return len(self._voters) // 2 + 1

    def get(self, voter_id: int) -> Voter | None:
        return self._voters.get(voter_id)

    def includes(self, key: ReplicaKey) -> bool:
        voter = self._voters.get(key.id)
        return voter is not None and voter.key.matches(key)

    def is_only(self, key: ReplicaKey) -> bool:
        return len(self._voters) == 1 and self.includes(key)

    def endpoints(self, voter_id: int) -> Endpoints:
        voter = self._voters.get(voter_id)
        return () if voter is None else voter.endpoints

    def node(self, voter_id: int, listener: str) -> Node | None:
        return node_at(voter_id, self.endpoints(voter_id), listener)

    def is_outdated(self, voter: Voter) -> bool:
        """True if `voter` is in the set, but with other endpoints or versions."""
        return self.includes(voter.key) and self._voters[voter.key.id] != voter

    def with_added(self, voter: Voter) -> VoterSet | None:
        return None if voter.key.id in self._voters else VoterSet((*self, voter))

    def with_removed(self, key: ReplicaKey) -> VoterSet | None:
        """Return the set without it; None if the key is not exactly that of a voter, or of the last
        one."""
        voter = self._voters.get(key.id)
        if voter is None or voter.key != key or len(self) == 1:
            return None
        return VoterSet(each for each in self if each is not voter)

    def with_updated(self, voter: Voter) -> VoterSet | None:
        if not self.includes(voter.key):
            return None
        return VoterSet((*(each for each in self if each.key.id != voter.key.id), voter))


def _voter_in_record(voter: Voter) -> voters_record.Voter:
    return voters_record.Voter(
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_bytes,
        endpoints=[voters_record.Endpoint(name=n, host=h, port=p) for n, h, p in voter.endpoints],
        k_raft_version_feature=voters_record.KRaftVersionFeature(
            min_supported_version=voter.versions.lowest,
            max_supported_version=voter.versions.highest,
        ),
    )
