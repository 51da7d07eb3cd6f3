"""Leader: writes the log of its epoch, and counts who has it."""

from __future__ import annotations

from ottla.raft.election_state import ElectionState
from ottla.raft.ids import Endpoints, ReplicaKey
from ottla.raft.settings import RaftSettings
from ottla.raft.states.progress import Progress
from ottla.raft.voter_change import VoterChange
from ottla.raft.voters import VoterSet

OBSERVER_FORGOTTEN_MS = 300_000


class Leader:
    def __init__(
        self,
        settings: RaftSettings,
        election: ElectionState,
        voters: VoterSet,
        granting: tuple[int, ...],
        start_offset: int,
        now_ms: int,
    ) -> None:
        self.election = election
        self.granting = granting
        self.start_offset = start_offset
        """Where its epoch begins: nothing is committed before a record of its own is."""
        self.high_watermark: int | None = None
        self.change: VoterChange | None = None
        """The change of voters under way: one at a time."""
        self.must_resign = False
        self.announce_at_ms = now_ms
        self._settings = settings
        self._voters = {voter.key.id: Progress(voter.key) for voter in voters}
        self._observers: dict[ReplicaKey, Progress] = {}
        self._fetched: set[int] = set()
        self.check_quorum_at_ms = now_ms + settings.check_quorum_ms

    @property
    def leader_endpoints(self) -> Endpoints:
        return self._settings.endpoints

    def grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return False

    @property
    def voters(self) -> list[Progress]:
        return list(self._voters.values())

    def observers(self, now_ms: int) -> list[Progress]:
        for key, progress in list(self._observers.items()):
            if now_ms - (progress.fetched_at_ms or 0) >= OBSERVER_FORGOTTEN_MS:
                del self._observers[key]
        return list(self._observers.values())

    def progress_of(self, key: ReplicaKey) -> Progress | None:
        voter = self._voters.get(key.id)
        if voter is not None and voter.key.matches(key):
            return voter
        return self._observers.get(key)

    def successors(self) -> list[ReplicaKey]:
        """The other voters, those with the longest log first."""
        others = [voter for voter in self.voters if voter.key.id != self._settings.key.id]
        others.sort(key=lambda voter: -1 if voter.end_offset is None else voter.end_offset)
        return [voter.key for voter in reversed(others)]

    def change_voters(self, voters: VoterSet, now_ms: int) -> None:
        """The set in the log is another: from here on its majority counts."""
        before, self._voters = self._voters, {}
        for voter in voters:
            known = before.get(voter.key.id)
            if known is None or not known.key.matches(voter.key):
                known = self._observers.pop(voter.key, None) or Progress(voter.key)
            else:
                del before[voter.key.id]
            known.key = voter.key
            self._voters[voter.key.id] = known
        self._observers.update({left.key: left for left in before.values()})
        self._fetched &= self._voters.keys()
        self.check_quorum_at_ms = now_ms + self._settings.check_quorum_ms

    def replica_fetched(self, key: ReplicaKey, offset: int, leader_end: int, now_ms: int) -> bool:
        """True if the high watermark moved."""
        if key.id < 0 or key.id == self._settings.key.id:
            return False  # no replica, or one that has this node's id by mistake
        progress = self.progress_of(key)
        if progress is None:
            progress = self._observers.setdefault(key, Progress(key))
        progress.fetched(offset, leader_end, now_ms)
        self.replica_is_alive(key, now_ms)
        return self._advance_high_watermark()

    def replica_is_alive(self, key: ReplicaKey, now_ms: int) -> None:
        """Check-quorum: a leader that no majority fetches from is replaced, or soon will be."""
        voter = self._voters.get(key.id)
        if voter is not None and voter.key.matches(key):
            self._fetched.add(key.id)
        needed = len(self._voters) // 2 + 1 - (self._settings.key.id in self._voters)
        if len(self._fetched) >= needed:
            self._fetched.clear()
            self.check_quorum_at_ms = now_ms + self._settings.check_quorum_ms

    @property
    def needs_others(self) -> bool:
        """There are other voters, be it that this node is none any more."""
        return self._voters.keys() != {self._settings.key.id}

    def has_lost_quorum(self, now_ms: int) -> bool:
        return self.needs_others and now_ms >= self.check_quorum_at_ms

    def flushed(self, offset: int) -> bool:
        """This node's own log is durable up to here. True if the high watermark moved."""
        own = self._voters.get(self._settings.key.id)
        if own is not None:
            own.end_offset = offset
        return self._advance_high_watermark()

    def to_be_announced(self, now_ms: int) -> list[ReplicaKey]:
        """Voters that are silent: they do not know who leads, or have lost their way to it."""
        silent_since = now_ms - self._settings.announce_period_ms
        return [
            voter.key
            for voter in self.voters
            if voter.key.id != self._settings.key.id
            and (voter.fetched_at_ms is None or voter.fetched_at_ms <= silent_since)
        ]

    def committed_offset(self) -> int | None:
        """What a majority of the voters has, if that includes a record of this epoch."""
        ends = sorted(
            (-1 if voter.end_offset is None else voter.end_offset for voter in self.voters),
            reverse=True,
        )
        offset = ends[len(ends) // 2]
        return offset if offset > self.start_offset else None

    def _advance_high_watermark(self) -> bool:
        offset = self.committed_offset()
        if offset is None or (self.high_watermark is not None and offset <= self.high_watermark):
            return False  # a new voter may lag behind what is committed already
        self.high_watermark = offset
        return True

    def has_committed(self, offset: int) -> bool:
        return self.high_watermark is not None and offset < self.high_watermark
