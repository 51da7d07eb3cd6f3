"""Leader: writes the log of its epoch, and counts the replicas that have it."""

from __future__ import annotations

from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.ids import Endpoints, ReplicaKey
from ottla.broker.raft.settings import RaftSettings
from ottla.broker.raft.states.progress import Progress
from ottla.broker.raft.voters.change import VoterChange
from ottla.broker.raft.voters.voters import VoterSet

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
        """The start of its epoch: nothing is committed before a record of its own is."""
        self.high_watermark: int | None = None
        self.change: VoterChange | None = None
        """The change of voters in progress: one at a time."""
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
        """Return the other voters, those with the longest log first."""
        others = [voter for voter in self.voters if voter.key.id != self._settings.key.id]
        others.sort(key=lambda voter: -1 if voter.end_offset is None else voter.end_offset)
        return [voter.key for voter in reversed(others)]

    def change_voters(self, voters: VoterSet, now_ms: int) -> None:
        """Take a new set of voters from the log: from now on its majority counts."""
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
        """Note a fetch; True if the high watermark advanced."""
        if key.id < 0 or key.id == self._settings.key.id:
            return False  # not a replica, or one that has this node's id by mistake
        progress = self.progress_of(key)
        if progress is None:
            progress = self._observers.setdefault(key, Progress(key))
        progress.fetched(offset, leader_end, now_ms)
        self.replica_is_alive(key, now_ms)
        return self._advance_high_watermark()

    def replica_is_alive(self, key: ReplicaKey, now_ms: int) -> None:
        """Check-quorum: a leader from which no majority fetches is replaced, or soon will be."""
        voter = self._voters.get(key.id)
        if voter is not None and voter.key.matches(key):
            self._fetched.add(key.id)
        needed = len(self._voters) // 2 + 1 - (self._settings.key.id in self._voters)
        if len(self._fetched) >= needed:
            self._fetched.clear()
            self.check_quorum_at_ms = now_ms + self._settings.check_quorum_ms

    @property
    def needs_others(self) -> bool:
        """True if there are other voters, even if this node is no voter any more."""
        return self._voters.keys() != {self._settings.key.id}

    def has_lost_quorum(self, now_ms: int) -> bool:
        return self.needs_others and now_ms >= self.check_quorum_at_ms

    def flushed(self, offset: int) -> bool:
        """This node's own log is durable up to here. True if the high watermark advanced."""
        own = self._voters.get(self._settings.key.id)
        if own is not None:
            own.end_offset = offset
        return self._advance_high_watermark()

    def to_be_announced(self, now_ms: int) -> list[ReplicaKey]:
        """Return the silent voters: they do not know who leads, or cannot reach the leader."""
        silent_since = now_ms - self._settings.announce_period_ms
        return [
            voter.key
            for voter in self.voters
            if voter.key.id != self._settings.key.id
            and (voter.fetched_at_ms is None or voter.fetched_at_ms <= silent_since)
        ]

    def committed_offset(self) -> int | None:
        """Return the offset that a majority of the voters has, if that includes a record of this
        epoch."""
        ends = sorted(
            (-1 if voter.end_offset is None else voter.end_offset for voter in self.voters),
            reverse=True,
        )
        offset = ends[len(ends) // 2]
        return offset if offset > self.start_offset else None

    def _advance_high_watermark(self) -> bool:
        offset = self.committed_offset()
        if offset is None or (self.high_watermark is not None and offset <= self.high_watermark):
            return False  # a new voter may lag behind what is already committed
        self.high_watermark = offset
        return True

    def has_committed(self, offset: int) -> bool:
        return self.high_watermark is not None and offset < self.high_watermark
