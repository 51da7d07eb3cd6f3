"""The leader's state of its followers, from which the high watermark and the ISR are derived.

A pure state machine: it is given fetches, appends, metadata and the controller's answers with the
time, and returns offsets and proposals. Three rules keep committed records safe:

- The high watermark is the lowest end offset among the *maximal* ISR: the one that the controller
  has committed, plus a follower that was proposed. The controller may elect any of these.
- A follower is proposed only when it has reached both the high watermark and the offset at which
  this leader's epoch began: before that, committed records may lie between the two.
- There is one proposal at a time, and it names the partition epoch it was based on, so that the
  controller refuses decisions based on old metadata. It is dropped only when the controller says
  that it was not carried out, or when newer metadata shows the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.broker.metadata.image import PartitionImage
from ottla.protocol.errors import ErrorCode

UNKNOWN: Final = -1
NO_BROKER_EPOCH: Final = -1
NEVER_MS: Final = -(2**62)

Eligible = Callable[[int, int], bool]
"""True if this broker, with the epoch that its fetches carry, may be in an ISR."""


class FollowerProgress:
    """A follower's progress, by its fetches."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "id",
        "leader_end_offset",
        "log_start_offset",
    )

    def __init__(self, follower_id: int, caught_up_ms: int) -> None:
        self.id = follower_id
        self.end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch = NO_BROKER_EPOCH
        self.caught_up_ms = caught_up_ms
        """The latest time at which it had all records of the leader."""
        self.fetched_ms = NEVER_MS
        self.leader_end_offset = UNKNOWN
        """The leader's log end at the last fetch."""

    def fetched(
        self, offset: int, log_start_offset: int, broker_epoch: int, leader_end: int, now_ms: int
    ) -> None:
        """Note a fetch from `offset`: the follower has everything before it."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset != UNKNOWN:
            # It has everything that was there at its last fetch. Under steady load this is all that
            # a follower that keeps up can ever show.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.leader_end_offset = max(leader_end, self.leader_end_offset)
        self.fetched_ms = now_ms

    def was_at_end(self, fetched_ms: int) -> None:
        """Note that it had all records when it fetched at `fetched_ms`."""
        self.fetched_ms = max(self.fetched_ms, fetched_ms)
        self.caught_up_ms = max(self.caught_up_ms, fetched_ms)

    def keeps_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= lag_max_ms

    def elected_again(self, leader_end: int, *, in_sync: bool, now_ms: int) -> None:
        """Start a new epoch of the same leader: followers outside the ISR have to catch up
        again."""
        self.caught_up_ms = self.fetched_ms = now_ms if in_sync else NEVER_MS
        self.leader_end_offset = leader_end


class Proposal(NamedTuple):
    """An ISR that the leader proposes to the controller."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


# The controller says: this was not done, and your state is current.
NOT_DONE: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# The state here is old, or this is no longer the leader: wait for newer metadata.
AWAIT_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class LeaderState:
    """A term of leadership: begins with a leader epoch, ends when another broker leads."""

    __slots__ = (
        "epoch_start_offset",
        "followers",
        "isr",
        "leader_epoch",
        "maximal_isr",
        "node_id",
        "partition_epoch",
        "pending",
        "replica_count",
    )

    def __init__(
        self, node_id: int, assigned: PartitionImage, end_offset: int, now_ms: int
    ) -> None:
        self.node_id = node_id
        self.leader_epoch = assigned.leader_epoch
        self.epoch_start_offset = end_offset
        self.followers: dict[int, FollowerProgress] = {}
        self.pending: Proposal | None = None
        self._take(assigned, now_ms)

    # --- metadata -------------------------------------------------------------------------------

    def update(self, assigned: PartitionImage, end_offset: int, now_ms: int) -> bool:
        """Take metadata in which this broker still leads; True if the ISR may have changed.

        Metadata that an answer of the controller has already reported is ignored, and must not undo
        a proposal that was made since.
        """
        new_epoch = assigned.leader_epoch > self.leader_epoch
        if not new_epoch and assigned.partition_epoch <= self.partition_epoch:
            return False
        self._take(assigned, now_ms)
        if new_epoch:
            self.leader_epoch = assigned.leader_epoch
            self.epoch_start_offset = end_offset
            for follower in self.followers.values():
                follower.elected_again(
                    end_offset, in_sync=follower.id in assigned.isr, now_ms=now_ms
                )
        return True

    def _take(self, assigned: PartitionImage, now_ms: int) -> None:
        ids = [replica for replica in assigned.replicas if replica != self.node_id]
        for follower_id in ids:
            if follower_id not in self.followers:
                since_ms = now_ms if follower_id in assigned.isr else NEVER_MS
                self.followers[follower_id] = FollowerProgress(follower_id, since_ms)
        for follower_id in self.followers.keys() - set(ids):
            del self.followers[follower_id]
        self.replica_count = len(ids) + 1
        self.partition_epoch = assigned.partition_epoch
        self._commit_isr(assigned.isr)

    def _commit_isr(self, isr: Iterable[int]) -> None:
        self.isr = tuple(isr)
        self.maximal_isr = frozenset(self.isr)
        self.pending = None

    # --- the high watermark ---------------------------------------------------------------------

    def high_watermark(
        self, end_offset: int, now_ms: int, lag_max_ms: int, eligible: Eligible
    ) -> int:
        """Return the high watermark, given that this broker has settled up to `end_offset`.

        A follower outside the ISR that keeps up counts too: it is about to join, and never could if
        the high watermark ran ahead of it.
        """
        mark = end_offset
        for follower in self.followers.values():
            if follower.end_offset < mark and (
                follower.id in self.maximal_isr
                or (
                    follower.keeps_up(end_offset, now_ms, lag_max_ms)
                    and eligible(follower.id, follower.broker_epoch)
                )
            ):
                mark = follower.end_offset
        return mark

    def waits_for(
        self, follower_id: int, end_offset: int, now_ms: int, lag_max_ms: int, eligible: Eligible
    ) -> bool:
        """True if the high watermark waits for this follower."""
        follower = self.followers.get(follower_id)
        if follower is None or follower_id in self.maximal_isr:
            return follower is not None
        return follower.keeps_up(end_offset, now_ms, lag_max_ms) and eligible(
            follower_id, follower.broker_epoch
        )

    def low_watermark(self, log_start_offset: int, alive: Callable[[int], bool]) -> int:
        """Return the offset below which no live replica has records any more."""
        return min(
            [log_start_offset]
            + [f.log_start_offset for f in self.followers.values() if alive(f.id)]
        )

    # --- the ISR --------------------------------------------------------------------------------

    def lacks_replicas(self, min_insync_replicas: int) -> bool:
        return len(self.isr) < min(min_insync_replicas, self.replica_count)

    def propose_expansion(
        self, follower_id: int, high_watermark: int, local_broker_epoch: int, eligible: Eligible
    ) -> Proposal | None:
        """After a fetch: propose that this follower joins, if it may."""
        if self.pending is not None or follower_id in self.maximal_isr:
            return None
        follower = self.followers.get(follower_id)
        if follower is None or follower.end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        if not eligible(follower_id, follower.broker_epoch):
            return None
        return self._propose((*self.isr, follower_id), local_broker_epoch)

    def waiting_to_join(self, end_offset: int, now_ms: int, lag_max_ms: int) -> list[int]:
        """Return the followers that keep up and were only kept out by the metadata. A partition
        without new records sees no further fetch by which this would be noticed."""
        if self.pending is not None:
            return []
        return [
            follower.id
            for follower in self.followers.values()
            if follower.id not in self.maximal_isr
            and follower.fetched_ms != NEVER_MS
            and follower.keeps_up(end_offset, now_ms, lag_max_ms)
        ]

    def propose_shrinking(
        self, end_offset: int, now_ms: int, lag_max_ms: int, local_broker_epoch: int
    ) -> Proposal | None:
        """Periodically: propose to remove the followers that have been behind for too long."""
        if self.pending is not None or len(self.isr) < 2:
            return None
        kept = tuple(
            replica
            for replica in self.isr
            if replica == self.node_id
            or (
                replica in self.followers
                and self.followers[replica].keeps_up(end_offset, now_ms, lag_max_ms)
            )
        )
        return None if len(kept) == len(self.isr) else self._propose(kept, local_broker_epoch)

    def _propose(self, isr: tuple[int, ...], local_broker_epoch: int) -> Proposal:
        epochs = tuple(
            local_broker_epoch
            if replica == self.node_id
            else self.followers[replica].broker_epoch
            if replica in self.followers
            else NO_BROKER_EPOCH
            for replica in isr
        )
        self.pending = Proposal(isr, epochs, self.leader_epoch, self.partition_epoch)
        # A proposed follower counts from now on; one that is to leave counts until it has left.
        self.maximal_isr = frozenset(self.isr) | frozenset(isr)
        return self.pending

    def accepted(
        self, proposal: Proposal, isr: Iterable[int], leader_epoch: int, partition_epoch: int
    ) -> bool:
        """Take the state that the controller answered; True if it was new."""
        if self.pending is not proposal or leader_epoch != self.leader_epoch:
            return False
        if partition_epoch < self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        self._commit_isr(isr)
        return True

    def refused(self, proposal: Proposal, error: ErrorCode) -> bool:
        """Note that the controller refused; True if the same proposal should be sent again."""
        if self.pending is not proposal:
            return False
        if error in NOT_DONE:
            self._commit_isr(self.isr)
            return False
        return error not in AWAIT_METADATA
