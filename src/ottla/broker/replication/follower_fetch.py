"""The fetches of followers at their leader: each reports how far the follower's log has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.broker.replication import isr
from ottla.broker.storage.errors import OffsetOutOfRange
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.replication.leader_state import LeaderState
    from ottla.broker.replication.partition import Partition
    from ottla.broker.storage.log import Log


class Reader(Protocol):
    """A follower's fetch session, as far as it concerns this partition."""

    def appended(self, partition: Partition, offset: int) -> None:
        """There are new records, from `offset` on."""
        ...

    def marked(self, partition: Partition) -> None:
        """The high watermark advanced."""
        ...

    def moved_start(self, partition: Partition) -> None:
        """Records were deleted: the follower should learn of it soon."""
        ...

    def replaced(self) -> None:
        """Another session of the same follower now fetches this partition."""
        ...

    def disturbed(self, partition: Partition) -> None:
        """This broker no longer leads it, or not in the same epoch, or it went offline."""
        ...


class FollowerFetch(NamedTuple):
    """A follower's position in a fetch."""

    follower_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_epoch: int
    """The epoch of its last record; -1 if it has none."""
    log_start_offset: int


def take_fetch(partition: Partition, fetch: FollowerFetch, now_ms: int) -> tuple[int, int] | None:
    """Process a follower's fetch. If its log diverges from this one, return (epoch, end offset) up
    to which they may agree; the fetch then has no other effect."""
    leading = _leading_for(partition, fetch)
    log = partition.usable_log()
    if fetch.last_epoch >= 0:
        parting = _parting(log, fetch)
        if parting is not None:
            return parting
    if not log.log_start_offset <= fetch.offset <= log.end_offset:
        raise OffsetOutOfRange(fetch.offset, log.log_start_offset, log.end_offset)
    follower = leading.followers[fetch.follower_id]
    before = (follower.end_offset, follower.log_start_offset)
    follower.fetched(
        fetch.offset, fetch.log_start_offset, fetch.broker_epoch, log.end_offset, now_ms
    )
    isr.expand(partition, fetch.follower_id)
    if before[0] != fetch.offset:
        partition.update_high_watermark()
    if before[1] != fetch.log_start_offset:
        partition.wake_waiters()  # deletions of records wait for it
    return None


def _leading_for(partition: Partition, fetch: FollowerFetch) -> LeaderState:
    if partition.error is not None:
        partition.usable_log()
    partition.check_leader_epoch(fetch.leader_epoch)
    partition.check_leading()
    leading, view = partition.leading, partition.view
    if leading is None or fetch.follower_id not in leading.followers:
        # It may know of a reassignment that this broker has not heard of yet: let it retry.
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{fetch.follower_id} is not known as a replica of {partition}",
        )
    if view is not None and view.is_stale(fetch.follower_id, fetch.broker_epoch):
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {fetch.follower_id} has been registered anew since epoch {fetch.broker_epoch}",
        )
    return leading


def _parting(log: Log, fetch: FollowerFetch) -> tuple[int, int] | None:
    epoch, end_offset = log.epoch_end_offset(fetch.last_epoch)
    if epoch < 0 or end_offset < 0 or fetch.offset < log.log_start_offset:
        raise OffsetOutOfRange(fetch.offset, log.log_start_offset, log.end_offset)
    if epoch < fetch.last_epoch or end_offset < fetch.offset:
        return epoch, end_offset
    return None


def waits_for(partition: Partition, follower_id: int) -> bool:
    """True if the high watermark waits for this follower: it is in the ISR, or about to join."""
    leading, view = partition.leading, partition.view
    return (
        leading is not None
        and view is not None
        and leading.waits_for(
            follower_id,
            partition.settled_offset,
            view.now_ms(),
            view.lag_max_ms,
            view.is_eligible,
        )
    )
