"""What must hold after every step of every node, whatever the network and the disks do.

- An epoch has one leader, and a voter gives one vote in it, crash or not.
- What is committed is the same everywhere and stays so: committed prefixes agree, nobody truncates
  below what it knew to be committed, nor what its leader has, and a high watermark only grows while
  its node lives.
- A leader has everything that was committed in earlier epochs.
- A leader commits with a record of its own epoch, and with a majority of the voters that count, on
  whose disks it is.
- No node says anything, neither epoch nor vote nor offset, that a crash could take back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from raft_memory_log import Ledger

from ottla.broker.raft.election_state import ElectionState
from ottla.broker.raft.ids import ReplicaKey
from ottla.broker.raft.voters.voters import VoterSet
from ottla.protocol.control_records.voters_record import VotersRecord
from ottla.protocol.messages import vote
from ottla.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.vote import VoteRequest, VoteResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from raft_node import Node


NOTHING = ElectionState().to_bytes((), 0)


class BrokenPromise(AssertionError):
    """An invariant does not hold."""


class Life(NamedTuple):
    """What is known of a node since its last start."""

    epoch: int
    high_watermark: int | None
    is_leader: bool


class Checker:
    def __init__(self, ledger: Ledger, *, outcomes_only: bool = False) -> None:
        self.ledger = ledger
        self.outcomes_only = outcomes_only
        """Look at what clients could notice alone, not at the rules that prevent it."""
        self.committed: list[int] = []
        self.commit_epochs: list[int] = []
        """By offset: the epoch of the leader that committed it."""
        self.leaders: dict[int, ReplicaKey] = {}
        self.steps = 0
        self._lives: dict[int, Life] = {}
        self._said_epoch: dict[ReplicaKey, int] = {}
        self._votes: dict[tuple[ReplicaKey, int], int] = {}

    # A node

    def started(self, node: Node) -> None:
        core = node.core
        assert core is not None
        said = self._said_epoch.get(node.settings.key, 0)
        if core.epoch < said:
            self._fail(f"node {node.id} is back in epoch {core.epoch}, but had told of {said}")
        self._lives[node.id] = Life(core.epoch, None, False)
        node.log.truncated.clear()

    def after_step(self, node: Node) -> None:
        self.steps += 1
        core, life = node.core, self._lives[node.id]
        assert core is not None
        if core.epoch < life.epoch:
            self._fail(f"node {node.id}: the epoch fell from {life.epoch} to {core.epoch}")
        is_new_leader = core.is_leader and (core.epoch != life.epoch or not life.is_leader)
        if is_new_leader:
            self._leads(node, core.epoch)
        self._check_truncation(node, life)
        high_watermark = core.high_watermark
        if high_watermark != life.high_watermark:
            self._committed(node, life, high_watermark)
        self._lives[node.id] = Life(core.epoch, high_watermark, core.is_leader)

    def _leads(self, node: Node, epoch: int) -> None:
        key = node.settings.key
        if self.leaders.setdefault(epoch, key) != key:
            self._fail(f"epoch {epoch} has two leaders: {self.leaders[epoch].id} and {node.id}")
        before = sum(1 for each in self.commit_epochs if each < epoch)
        if self.commit_epochs[:before] != sorted(self.commit_epochs[:before]):
            self._fail("a later offset was committed in an earlier epoch")
        if node.log.numbers[:before] != self.committed[:before]:
            lost = self._first_difference(node.log.numbers, before)
            self._fail(f"leader {node.id} of epoch {epoch} lacks the committed offset {lost}")

    def _check_truncation(self, node: Node, life: Life) -> None:
        for offset, number in node.log.truncated:
            if offset < (life.high_watermark or 0):
                known = life.high_watermark
                self._fail(f"node {node.id} truncated at {offset}, and {known} was committed")
            if not self.outcomes_only:
                self._check_need(node, offset, number)
                self._check_voters(node)
        node.log.truncated.clear()

    def _check_need(self, node: Node, offset: int, number: int) -> None:
        """Only what the leader has not is cut off."""
        core = node.core
        assert core is not None
        for other in node.world.nodes:
            if other.core and other.core.is_leader and other.core.epoch == core.epoch:  # its leader
                leaders = other.log.numbers
                if leaders[offset : offset + 1] == [number]:
                    self._fail(f"node {node.id} truncated at {offset}, which its leader has")

    def _check_voters(self, node: Node) -> None:
        """The voters are those of the last such record in the log, whatever was there before."""
        records = [
            record for _, record in node.log.control_records(-1) if isinstance(record, VotersRecord)
        ]
        core = node.core
        assert core is not None
        if records and core.voters != VoterSet.from_record(records[-1]):
            self._fail(f"node {node.id} goes by {core.voters}, which is not in its log any more")

    def _committed(self, node: Node, life: Life, offset: int | None) -> None:
        core, before = node.core, life.high_watermark or 0
        assert core is not None
        if offset is None or offset < before:
            self._fail(f"node {node.id}: the high watermark fell from {before} to {offset}")
            return
        known = min(offset, len(self.committed))
        if node.log.numbers[before:known] != self.committed[before:known]:
            other = self._first_difference(node.log.numbers, known)
            self._fail(f"node {node.id} has another record committed at offset {other}")
        if offset > len(self.committed):
            if not core.is_leader and not life.is_leader:  # it may commit its removal, and go
                self._fail(f"node {node.id} knows of {offset} as committed before any leader")
            self._commits(node, offset)

    def _commits(self, node: Node, offset: int) -> None:
        core = node.core
        assert core is not None
        if not self.outcomes_only:
            self._check_commit_rules(node, offset)
        new = node.log.numbers[len(self.committed) : offset]
        if len(new) < offset - len(self.committed):
            self._fail(f"node {node.id} committed {offset}, past its end {len(node.log.numbers)}")
        self.commit_epochs += [core.epoch] * len(new)
        self.committed += new

    def _check_commit_rules(self, node: Node, offset: int) -> None:
        core, numbers = node.core, node.log.numbers[:offset]
        assert core is not None
        if self.ledger.epoch(numbers[-1]) != core.epoch:
            self._fail(f"leader {node.id} of epoch {core.epoch} committed a former one's record")
        holders = [
            each.id
            for each in node.world.nodes
            if core.voters.includes(each.settings.key)
            and each.log.durable_numbers()[:offset] == numbers
        ]
        if len(holders) < core.voters.majority:
            self._fail(
                f"leader {node.id} committed {offset}, which of {core.voters} only {holders} have"
            )

    def _first_difference(self, numbers: list[int], limit: int) -> int:
        for offset in range(limit):
            if offset >= len(numbers) or numbers[offset] != self.committed[offset]:
                return offset
        return limit

    # What nodes say

    def sends(self, node: Node, message: Message) -> None:
        key, core = node.settings.key, node.core
        assert core is not None
        on_disk = ElectionState.from_bytes(node.quorum_state or NOTHING)
        epoch, voted = _says(message, key)
        if epoch is not None:
            self._said_epoch[key] = max(epoch, self._said_epoch.get(key, 0))
            if epoch > on_disk.epoch and not self.outcomes_only:
                self._fail(f"node {node.id} told of epoch {epoch}, on disk is {on_disk.epoch}")
        if voted is not None and epoch is not None:
            self._votes_for(node, voted.id, epoch)
        if isinstance(message, FetchRequest) and not self.outcomes_only:
            offset = message.topics[0].partitions[0].fetch_offset
            if node.log.durable_numbers()[:offset] != node.log.numbers[:offset]:
                self._fail(f"node {node.id} acknowledged {offset} before it was on disk")

    def answers_vote(self, node: Node, asked: vote.RequestPartitionData, response: Message) -> None:
        assert isinstance(response, vote.VoteResponse)
        if not asked.pre_vote and response.topics and response.topics[0].partitions[0].vote_granted:
            self._votes_for(node, asked.replica_id, asked.replica_epoch)

    def _votes_for(self, node: Node, candidate: int, epoch: int) -> None:
        """A vote leaves the node: the only one in its epoch, and on disk."""
        first = self._votes.setdefault((node.settings.key, epoch), candidate)
        if first != candidate:
            self._fail(f"node {node.id} voted for {first} and {candidate} in epoch {epoch}")
        state = ElectionState.from_bytes(node.quorum_state or NOTHING)
        on_disk = state.voted.id if state.voted else None
        if not self.outcomes_only and state.epoch == epoch and on_disk != candidate:
            self._fail(f"node {node.id} votes for {candidate}, on disk is {on_disk}")

    def _fail(self, text: str) -> None:
        raise BrokenPromise(text)


def _says(message: Message, sender: ReplicaKey) -> tuple[int | None, ReplicaKey | None]:
    """The epoch that a message tells of, and the candidate that its sender votes for by it."""
    if isinstance(message, VoteRequest):
        asked = message.topics[0].partitions[0]
        return asked.replica_epoch, None if asked.pre_vote else sender
    if isinstance(message, VoteResponse) and message.topics:
        return message.topics[0].partitions[0].leader_epoch, None
    if isinstance(message, BeginQuorumEpochRequest):
        return message.topics[0].partitions[0].leader_epoch, None
    if isinstance(message, FetchRequest):
        return message.topics[0].partitions[0].current_leader_epoch, None
    return None, None
