"""A partition as this broker has it: what it does as the leader, and what as a follower.

The metadata says which of the two it is (`lead`, `follow`). A leader takes records from clients,
gives them to followers and decides, by what their fetches tell (`leader_state.py`), how far they
are committed. A follower's log is what its leader's is, and it takes the leader's word for the rest
(`follower_state.py` has what it decides, `fetcher.py` moves the bytes).

A leader of a single replica has no followers to think of: `leading` is None then, and what is
settled is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.buffers import Buffer
from ottla.metadata.image import PartitionImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.control import end_txn_marker
from ottla.records.header import TRANSACTIONAL_BIT, BatchHeader, read_header
from ottla.replication.follower_fetch import FollowerFetch, Reader
from ottla.replication.following import FollowingReplica
from ottla.replication.leader_state import LeaderState
from ottla.replication.replica import NEVER, Waiter
from ottla.storage.errors import OffsetOutOfRange
from ottla.storage.log import Appended, Log
from ottla.storage.producer_checks import (
    check_coordinated,
    check_marker,
    check_produced,
    has_transaction,
)
from ottla.storage.verification import Verification

if TYPE_CHECKING:
    from ottla.replication.cluster_view import ClusterView

__all__ = ["Partition", "TransactionEnd", "Waiter"]


class TransactionEnd(NamedTuple):
    """What a coordinator has to say at the end of a transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int = 0
    """The protocol by which it ended; from 2 on the epoch is above that of the records."""


class Partition(FollowingReplica):
    __slots__ = (
        "_flush_soon",
        "_flushing",
        "_view",
        "isr",
        "leading",
        "min_insync_replicas",
        "readers",
        "replica_count",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        create_log: Callable[[Partition], Log],
        flush_soon: Callable[[Partition], None],
        view: ClusterView | None = None,
    ) -> None:
        """Without a `view` there is no cluster around it: it leads, and has no followers."""
        super().__init__(topic, topic_id, index, create_log)
        self.is_leader = view is None
        self.isr: tuple[int, ...] = ()
        self.replica_count = 1
        self.min_insync_replicas = 1
        self.leading: LeaderState | None = None
        """The followers, while this broker leads and has any."""
        self.readers: dict[int, Reader] = {}
        """By follower: the session in which it fetches."""
        self._view = view
        self._flush_soon = flush_soon
        self._flushing = False

    # --- roles ----------------------------------------------------------------------------------

    def lead(self, assigned: PartitionImage) -> bool:
        """The metadata names this broker as the leader; whether a new term begins with it."""
        if not self._take(assigned):
            return False
        view = self._view
        assert view is not None
        now_ms = view.now_ms()
        new_term = not self.is_leader or self.leader_epoch != assigned.leader_epoch
        if new_term:
            self._stop_readers()
            self._begin_term(assigned)
        end_offset = 0 if self.log is None else self.log.end_offset
        if len(assigned.replicas) == 1:
            self.leading = None
        elif self.leading is None:
            self.leading = LeaderState(view.node_id, assigned, end_offset, now_ms)
        else:
            self.leading.update(assigned, end_offset, now_ms)
        self._take_isr()
        for gone in self.readers.keys() - set(assigned.replicas):
            self.readers.pop(gone).disturbed(self)
        if self.log is not None:
            self._update_high_watermark()
        if new_term:
            self._disturb()
        return new_term

    def _begin_term(self, assigned: PartitionImage) -> None:
        if not self.is_leader:
            self.leading = None  # what was known of followers is of another term
        self.is_leader = True
        self.leader_id, self.leader_epoch = assigned.leader, assigned.leader_epoch
        if self.log is not None:
            self.log.assign_epoch(self.leader_epoch)
            self._settle_or_flush(self.log)

    def follow(self, assigned: PartitionImage) -> bool:
        """Another broker leads, or nobody; whether that is news to a fetcher."""
        if not self._take(assigned):
            return False
        new_term = self.is_leader or self.leader_epoch != assigned.leader_epoch
        self.is_leader = False
        self.leading = None
        self.leader_id, self.leader_epoch = assigned.leader, assigned.leader_epoch
        self.isr = assigned.isr
        if new_term:
            self._stop_readers()
            self._disturb()
        return new_term

    def _take(self, assigned: PartitionImage) -> bool:
        """False for news that are older than what is known."""
        if assigned.leader_epoch < self.leader_epoch:
            return False
        self.replica_count = len(assigned.replicas)
        if self.leading is None:
            self.isr = assigned.isr
        return True

    def _take_isr(self) -> None:
        if self.leading is not None:
            self.isr = self.leading.isr

    def _stop_readers(self) -> None:
        readers, self.readers = self.readers, {}
        for reader in readers.values():
            reader.disturbed(self)

    def attach(self, log: Log, high_watermark: int | None = None) -> None:
        if high_watermark is None and self.replica_count > 1:
            high_watermark = log.log_start_offset
        super().attach(log, high_watermark)
        if self.is_leader and self.leader_epoch >= 0:
            log.assign_epoch(self.leader_epoch)
            self._update_high_watermark()

    def set_error(self, error: ErrorCode) -> None:
        super().set_error(error)
        self._stop_readers()

    def not_leader(self) -> KafkaError:
        if self.error is not None:  # why it is not, where its folder failed
            return KafkaError(self.error)
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"{self} is led by {self.leader_id} in epoch {self.leader_epoch}",
        )

    def check_leading(self) -> None:
        if not self.is_leader:
            raise self.not_leader()

    # --- writing --------------------------------------------------------------------------------

    def append(
        self, batch: Buffer, header: BatchHeader, now_ms: int, *, checked: bool = False
    ) -> Appended:
        """Append a validated batch as the leader. What it carries of a producer has to be of its
        latest epoch, unless the caller has `checked` more than that."""
        log = self.usable_log()
        if not self.is_leader:
            raise self.not_leader()
        if header[9] >= 0 and not checked:
            check_coordinated(log.producers, header)
        appended = log.append(batch, header, self.leader_epoch, now_ms)
        if header[5] & TRANSACTIONAL_BIT and appended[0] in log.producers.ongoing:
            self._transaction_starts[appended[0]] = self._appended_bytes
        self._appended_bytes += len(batch)
        if self.readers:
            for reader in self.readers.values():
                reader.appended(self, appended[0])
        if self._flushing:
            return appended  # Visible once the flush under way, or the one after it, is done.
        if _flush_is_due(log):
            self._flushing = True
            self._flush_soon(self)
        else:
            self._settle(log.end_offset, self._appended_bytes)
        return appended

    def append_produced(
        self,
        batch: Buffer,
        header: BatchHeader,
        now_ms: int,
        verification: Verification | None = None,
        *,
        must_verify: bool = True,
    ) -> tuple[Appended, int | None]:
        """Append the batch of an idempotent client, unless it is here already: then, where that is
        and its timestamp."""
        log = self.usable_log()
        if not self.is_leader:
            raise self.not_leader()
        known = check_produced(log.producers, header, verification, must_verify=must_verify)
        if known is None:
            return self.append(batch, header, now_ms, checked=True), None
        return (
            Appended(known.first_offset, known.last_offset, log.log_start_offset),
            known.timestamp,
        )

    def append_marker(self, end: TransactionEnd, now_ms: int) -> Appended:
        """End a transaction here. Refused with INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED if the partition has seen later ones."""
        batch = end_txn_marker(
            committed=end.committed,
            coordinator_epoch=end.coordinator_epoch,
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            timestamp_ms=now_ms,
        )
        header = read_header(batch)
        self.check_leading()
        producers = self.usable_log().producers
        check_marker(producers, header, end.coordinator_epoch, end.transaction_version)
        return self.append(batch, header, now_ms, checked=True)

    def begin_verification(
        self, header: BatchHeader, now_ms: int, *, epochs_grow: bool
    ) -> Verification | None:
        """Before a transactional batch: note that its coordinator is to be asked. `None` if that is
        not needed, since the transaction is open here."""
        producers = self.usable_log().producers
        producer_id, epoch = header[9], header[10]
        entry = producers.producers.get(producer_id)
        if entry is not None:
            if epoch < entry.producer_epoch:
                raise KafkaError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"producer {producer_id} is at epoch {entry.producer_epoch} in {self}, the "
                    f"batch at {epoch}",
                )
            if has_transaction(entry, epoch):
                return None
        return producers.begin_verification(
            producer_id, epoch, header[11], now_ms, epochs_grow=epochs_grow
        )

    # --- settling and committing ----------------------------------------------------------------

    def begin_flush(self) -> tuple[int, int]:
        """What the flush that starts now will cover: (end offset, bytes appended so far)."""
        return self.usable_log().end_offset, self._appended_bytes

    def end_flush(self, covered: tuple[int, int]) -> bool:
        """A flush is done; True if another one is due at once (its group commit has gathered)."""
        log = self.log
        if log is None or self.error is not None or not self.is_leader:
            self._flushing = False
            return False
        due = _flush_is_due(log)
        if due:
            # Not `covered` alone: the log may have been cut while the flush was under way.
            self._settle(min(covered[0], log.recovery_point), covered[1])
        else:
            self._flushing = False
            self._settle(log.end_offset, self._appended_bytes)
        if self.leading is not None:
            for waiter in list(self.waiters):  # some wait for no more than this broker's disk
                waiter.advanced(self, 0)
        return due

    def _settle_or_flush(self, log: Log) -> None:
        if self._flushing:
            return
        if _flush_is_due(log):
            self._flushing = True
            self._flush_soon(self)
        else:
            self.settled_offset = log.end_offset

    def _settle(self, offset: int, appended_bytes: int) -> None:
        self.settled_offset = offset
        if self.leading is not None:
            self._update_high_watermark()
        elif offset > self.high_watermark:
            self._advance(offset, appended_bytes)

    def _update_high_watermark(self) -> None:
        """It never goes back on a leader, and stays where it is while too few are in sync."""
        leading = self.leading
        if leading is None:
            offset = self.settled_offset
        elif leading.lacks_replicas(self.min_insync_replicas):
            return
        else:
            view = self._view
            assert view is not None
            offset = leading.high_watermark(
                self.settled_offset, view.now_ms(), view.lag_max_ms, view.is_eligible
            )
        if offset > self.high_watermark:
            self._advance(offset, self._visible_at(offset))
            for reader in self.readers.values():
                reader.marked(self)

    def waits_for(self, follower_id: int) -> bool:
        """Whether the high watermark does not pass this follower: it is in the ISR, or about to
        join."""
        leading, view = self.leading, self._view
        return (
            leading is not None
            and view is not None
            and leading.waits_for(
                follower_id,
                self.settled_offset,
                view.now_ms(),
                view.lag_max_ms,
                view.is_eligible,
            )
        )

    @property
    def lacks_replicas(self) -> bool:
        """Whether `acks=all` must be refused for want of in-sync replicas."""
        return len(self.isr) < min(self.min_insync_replicas, self.replica_count)

    @property
    def has_too_few_replicas(self) -> bool:
        """Whether what is committed now is so by fewer replicas than `min.insync.replicas`."""
        leading = self.leading
        if leading is None:
            return False
        needed = min(self.min_insync_replicas, leading.replica_count)
        return len(leading.maximal_isr) < needed

    @property
    def is_catching_up(self) -> bool:
        """After an election: whether records of terms before this one may be committed above the
        high watermark, which is known only when the followers have fetched."""
        leading = self.leading
        return leading is not None and self.high_watermark < leading.epoch_start_offset

    @property
    def low_watermark(self) -> int:
        """Below this no live replica has records any more."""
        log_start_offset = self.usable_log().log_start_offset
        if self.leading is None or self._view is None:
            return log_start_offset
        return self.leading.low_watermark(log_start_offset, self._view.is_alive)

    def delete_before(self, offset: int) -> None:
        """Make the log begin at `offset`; followers hear of it at once."""
        if self.usable_log().increment_log_start_offset(offset):
            for reader in self.readers.values():
                reader.moved_start(self)

    # --- followers ------------------------------------------------------------------------------

    def take_fetch(self, fetch: FollowerFetch, now_ms: int) -> tuple[int, int] | None:
        """A follower asks for what comes after its records. If its log has parted from this one:
        (epoch, end offset) up to which they may agree, and then the fetch counts for nothing."""
        leading = self._leading_for(fetch)
        log = self.usable_log()
        if fetch.last_epoch >= 0:
            parting = self._parting(log, fetch)
            if parting is not None:
                return parting
        if not log.log_start_offset <= fetch.offset <= log.end_offset:
            raise OffsetOutOfRange(fetch.offset, log.log_start_offset, log.end_offset)
        follower = leading.followers[fetch.follower_id]
        before = (follower.end_offset, follower.log_start_offset)
        follower.fetched(
            fetch.offset, fetch.log_start_offset, fetch.broker_epoch, log.end_offset, now_ms
        )
        self._expand_isr(leading, fetch.follower_id)
        if before[0] != fetch.offset:
            self._update_high_watermark()
        if before[1] != fetch.log_start_offset:
            for waiter in list(self.waiters):  # deletions of records wait for it
                waiter.advanced(self, 0)
        return None

    def _leading_for(self, fetch: FollowerFetch) -> LeaderState:
        if self.error is not None:
            self.usable_log()
        self.check_leader_epoch(fetch.leader_epoch)
        self.check_leading()
        view = self._view
        if self.leading is None or fetch.follower_id not in self.leading.followers:
            # It may know of a reassignment that has not been heard of here: let it ask again.
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{fetch.follower_id} is not known as a replica of {self}",
            )
        if view is not None and view.is_stale(fetch.follower_id, fetch.broker_epoch):
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {fetch.follower_id} has been registered anew since epoch "
                f"{fetch.broker_epoch}",
            )
        return self.leading

    def _parting(self, log: Log, fetch: FollowerFetch) -> tuple[int, int] | None:
        epoch, end_offset = log.epoch_end_offset(fetch.last_epoch)
        if epoch < 0 or end_offset < 0 or fetch.offset < log.log_start_offset:
            raise OffsetOutOfRange(fetch.offset, log.log_start_offset, log.end_offset)
        if epoch < fetch.last_epoch or end_offset < fetch.offset:
            return epoch, end_offset
        return None

    def _expand_isr(self, leading: LeaderState, follower_id: int) -> None:
        view = self._view
        if view is None or follower_id in leading.maximal_isr:
            return
        proposal = leading.propose_expansion(
            follower_id, self.high_watermark, view.broker_epoch(), view.is_eligible
        )
        if proposal is not None:
            view.propose(self, proposal)

    def shrink_isr(self, now_ms: int) -> None:
        """Propose to go on without the followers that have fallen behind for too long."""
        view, leading, log = self._view, self.leading, self.log
        if view is None or leading is None or log is None or self.error is not None:
            return
        proposal = leading.propose_shrinking(
            log.end_offset, now_ms, view.lag_max_ms, view.broker_epoch()
        )
        if proposal is not None:
            view.propose(self, proposal)
        self.review()

    def review(self) -> None:
        """Somebody who held the high watermark back may no longer count, or may join now."""
        leading, view, log = self.leading, self._view, self.log
        if leading is None or view is None or log is None or self.error is not None:
            return
        self._update_high_watermark()
        for follower_id in leading.waiting_to_join(log.end_offset, view.now_ms(), view.lag_max_ms):
            self._expand_isr(leading, follower_id)

    def isr_changed(self) -> None:
        """The controller has accepted a proposal."""
        self._take_isr()
        self.review()

    def isr_refused(self) -> None:
        """It has refused one. Nobody is proposed again at once: what it knows will be heard."""
        self._take_isr()
        if self.leading is not None and self.log is not None and self.error is None:
            self._update_high_watermark()


def _flush_is_due(log: Log) -> bool:
    """Whether `flush.messages` asks for a flush before the last append counts. (`flush.ms` is a
    matter of the log manager's timer: nobody waits for it.)"""
    flush_messages = log.config.flush_messages
    return flush_messages < NEVER and log.unflushed_messages >= flush_messages
