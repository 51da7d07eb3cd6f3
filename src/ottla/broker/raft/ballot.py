"""Counts the votes of one election."""

from __future__ import annotations

from ottla.broker.raft.ids import ReplicaKey
from ottla.broker.raft.voters.voters import VoterSet


class Ballot:
    """Counts only the voters of the set it began with, each by its first answer."""

    def __init__(self, voters: VoterSet, own_id: int) -> None:
        self._keys = {voter.key.id: voter.key for voter in voters}
        self._majority = voters.majority
        self._granted: dict[int, bool] = {}
        self.record(own_id, granted=True)

    def record(self, voter_id: int, *, granted: bool) -> None:
        if voter_id in self._keys:
            self._granted.setdefault(voter_id, granted)

    @property
    def granting(self) -> tuple[int, ...]:
        return tuple(sorted(voter for voter, granted in self._granted.items() if granted))

    @property
    def unrecorded(self) -> list[ReplicaKey]:
        return [key for voter, key in self._keys.items() if voter not in self._granted]

    @property
    def is_won(self) -> bool:
        return len(self.granting) >= self._majority

    @property
    def is_lost(self) -> bool:
        return len(self.granting) + len(self.unrecorded) < self._majority
