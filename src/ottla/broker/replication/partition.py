"""A partition on this broker: its log and offsets, as a leader or as a follower.

The metadata decides which of the two it is (`lead`, `follow`). The modules beside this one are
functions on a partition: a leader takes the fetches of its followers (`follower_fetch.py`), keeps
the ISR (`isr.py`), flushes (`group_commit.py`) and verifies transactions (`verifying.py`); a
follower copies its leader's log (`following.py`, and `fetcher.py` moves the bytes).

Two offsets describe the progress of an appended record:

- `settled_offset`: up to here this broker has done what its flush settings demand
  (`flush.messages`); an `acks=1` producer is answered when it passes its records.
- `high_watermark`: up to here every in-sync replica has settled; consumers see this much, and an
  `acks=all` producer is answered here. With one replica the two move together.

A third one, the `last_stable_offset`, is for readers of committed data: it stays at the beginning
of the oldest open transaction until the marker of that is below the high watermark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication import isr
from ottla.broker.replication.byte_counts import ByteCounts
from ottla.broker.replication.leader_state import LeaderState
from ottla.broker.storage.log import Appended, Log
from ottla.broker.storage.log_reading import LogSlice
from ottla.broker.storage.producers.checks import check_coordinated, check_marker, check_produced
from ottla.broker.storage.producers.verification import Verification
from ottla.broker.storage.segments.transaction_index import AbortedTransaction
from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.control import end_txn_marker
from ottla.records.header import TRANSACTIONAL_BIT, BatchHeader, read_header
from ottla.records.header_fields import ATTRIBUTES, PRODUCER_ID
from ottla.runtime.disk import FileSlice

if TYPE_CHECKING:
    from ottla.broker.replication.cluster_view import ClusterView
    from ottla.broker.replication.follower_fetch import Reader

NEVER: Final = 2**63 - 1
"""The default of `flush.messages`: the operating system decides when to write back."""


class Waiter(Protocol):
    """A request that waits in purgatory for this partition."""

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        """More of the log became visible."""
        ...

    def disturbed(self, partition: Partition) -> None:
        """The partition went offline, was deleted or changed its leader: check again."""
        ...


class TransactionEnd(NamedTuple):
    """A coordinator's marker for the end of a transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int = 0
    """The protocol version by which it ended; from 2 on the epoch is above that of the records."""


class Partition:
    __slots__ = (
        "_create_log",
        "_flush_soon",
        "byte_counts",
        "error",
        "high_watermark",
        "index",
        "is_flushing",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_id",
        "leading",
        "log",
        "min_insync_replicas",
        "readers",
        "replica_count",
        "settled_offset",
        "topic",
        "topic_id",
        "view",
        "waiters",
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
        """Without a `view` there is no cluster: the partition leads, and has no followers."""
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.view = view
        self.is_leader = view is None
        self.leader_id = -1
        self.leader_epoch = -1
        self.isr: tuple[int, ...] = ()
        self.replica_count = 1
        self.min_insync_replicas = 1
        self.error: ErrorCode | None = None
        """Why it cannot be used now (its log dir is offline, it is being deleted); None if it
        can."""
        self.log: Log | None = None
        """None until the first use, so that a topic of thousands of partitions is created quickly;
        its folders are created in the background or when they are needed, whichever is first."""
        self.settled_offset = self.high_watermark = 0
        self.byte_counts = ByteCounts()
        self.leading: LeaderState | None = None
        """The followers and the ISR, while this broker leads and has followers. A leader of a
        single replica has none, and its settled records are committed."""
        self.readers: dict[int, Reader] = {}
        """By follower: the session in which it fetches."""
        self.waiters: dict[Waiter, None] = {}
        self.is_flushing = False
        """True while a group commit runs, which settles what was appended before and meanwhile."""
        self._create_log = create_log
        self._flush_soon = flush_soon

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    # --- roles ----------------------------------------------------------------------------------

    def lead(self, assigned: PartitionImage) -> bool:
        """Lead, as the metadata says; True if a new term begins."""
        if not self._take(assigned):
            return False
        view = self.view
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
        if self.leading is not None:
            self.isr = self.leading.isr
        for gone in self.readers.keys() - set(assigned.replicas):
            self.readers.pop(gone).disturbed(self)
        if self.log is not None:
            self.update_high_watermark()
            isr.expand_by_waiting(self)
        if new_term:
            self._disturb_waiters()
        return new_term

    def _begin_term(self, assigned: PartitionImage) -> None:
        if not self.is_leader:
            self.leading = None  # it belongs to an earlier term
        self.is_leader = True
        self.leader_id, self.leader_epoch = assigned.leader, assigned.leader_epoch
        if self.log is not None:
            self.log.assign_epoch(self.leader_epoch)
            if self.is_flushing or flush_is_due(self.log):
                self._flush_first()
            else:
                self.settled_offset = self.log.end_offset

    def follow(self, assigned: PartitionImage) -> bool:
        """Follow another leader, or none; True if a fetcher needs to know."""
        if not self._take(assigned):
            return False
        new_term = self.is_leader or self.leader_epoch != assigned.leader_epoch
        self.is_leader = False
        self.leading = None
        self.leader_id, self.leader_epoch = assigned.leader, assigned.leader_epoch
        self.isr = assigned.isr
        if new_term:
            self._stop_readers()
            self._disturb_waiters()
        return new_term

    def _take(self, assigned: PartitionImage) -> bool:
        """Take the replicas and ISR; False if the metadata is older than what is known."""
        if assigned.leader_epoch < self.leader_epoch:
            return False
        self.replica_count = len(assigned.replicas)
        if self.leading is None:
            self.isr = assigned.isr
        return True

    def _stop_readers(self) -> None:
        readers, self.readers = self.readers, {}
        for reader in readers.values():
            reader.disturbed(self)

    def _disturb_waiters(self) -> None:
        for waiter in list(self.waiters):
            waiter.disturbed(self)

    def not_leader(self) -> KafkaError:
        if self.error is not None:  # its log dir failed: that is the reason
            return KafkaError(self.error)
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"{self} is led by {self.leader_id} in epoch {self.leader_epoch}",
        )

    def check_leading(self) -> None:
        if not self.is_leader:
            raise self.not_leader()

    def check_leader_epoch(self, known_epoch: int) -> None:
        """Refuse a client that knows another leader epoch; -1 means it knows none."""
        if known_epoch < 0 or known_epoch == self.leader_epoch:
            return
        if known_epoch < self.leader_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"{self} is at leader epoch {self.leader_epoch}, the request at {known_epoch}",
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{self} is at leader epoch {self.leader_epoch}, not yet at {known_epoch}",
        )

    # --- the log --------------------------------------------------------------------------------

    def attach(self, log: Log, high_watermark: int | None = None) -> None:
        """Use a log that was loaded or created. All its records are visible, unless there are other
        replicas: then those up to the checkpoint's high watermark."""
        if high_watermark is None and self.replica_count > 1:
            high_watermark = log.log_start_offset
        self.log = log
        self.settled_offset = self.high_watermark = log.end_offset
        if high_watermark is not None:
            self.high_watermark = max(log.log_start_offset, min(high_watermark, log.end_offset))
        self.byte_counts.reset(log, self.high_watermark)
        if self.is_leader and self.leader_epoch >= 0:
            log.assign_epoch(self.leader_epoch)
            self.update_high_watermark()

    def usable_log(self) -> Log:
        if self.error is not None:
            raise KafkaError(self.error, f"{self} cannot be used: {self.error.name}")
        if self.log is None:
            self.attach(self._create_log(self))
        assert self.log is not None
        return self.log

    def set_error(self, error: ErrorCode) -> None:
        """Take it out of use; waiting requests check again and find the error."""
        self.error = error
        self._disturb_waiters()
        self._stop_readers()

    # --- writing --------------------------------------------------------------------------------

    def append(
        self, batch: Buffer, header: BatchHeader, now_ms: int, *, checked: bool = False
    ) -> Appended:
        """Append a validated batch as the leader. Its producer epoch must be the latest, unless the
        caller has `checked` more than that."""
        log = self.log
        if log is None or self.error is not None:
            log = self.usable_log()
        if not self.is_leader:
            raise self.not_leader()
        if header[PRODUCER_ID] >= 0 and not checked:
            check_coordinated(log.producers, header)
        appended = log.append(batch, header, self.leader_epoch, now_ms)
        counts = self.byte_counts
        if header[ATTRIBUTES] & TRANSACTIONAL_BIT and appended[0] in log.producers.ongoing:
            counts.transaction_starts[appended[0]] = counts.appended
        counts.appended += len(batch)
        if self.readers:
            for reader in self.readers.values():
                reader.appended(self, appended[0])
        if self.is_flushing or flush_is_due(log):
            self._flush_first()
        else:
            self.settle(log.end_offset, counts.appended)
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
        """Append the batch of an idempotent client. If it is a duplicate, return its offsets and
        its timestamp instead."""
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
        """Append a transaction marker. Raises INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED if the partition has seen later epochs."""
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

    def _flush_first(self) -> None:
        """Settle the log end after a flush: the one in progress or the one after it, or else one
        that starts now."""
        if not self.is_flushing:
            self.is_flushing = True
            self._flush_soon(self)

    def settle(self, offset: int, appended_bytes: int) -> None:
        """Note that the flush settings are met below `offset`: that is, for `appended_bytes`."""
        self.settled_offset = offset
        if self.leading is not None:
            self.update_high_watermark()
        elif offset > self.high_watermark:
            self.advance(offset, appended_bytes)

    # --- the high watermark ---------------------------------------------------------------------

    def update_high_watermark(self) -> None:
        """Advance the high watermark of a leader. It never goes back, and it stays while too few
        replicas are in sync."""
        leading = self.leading
        if leading is None:
            offset = self.settled_offset
        elif leading.lacks_replicas(self.min_insync_replicas):
            return
        else:
            view = self.view
            assert view is not None
            offset = leading.high_watermark(
                self.settled_offset, view.now_ms(), view.lag_max_ms, view.is_eligible
            )
        if offset > self.high_watermark:
            log = self.log
            assert log is not None
            counts = self.byte_counts
            self.advance(offset, counts.visible_at(offset, self.high_watermark, log.end_offset))
            for reader in self.readers.values():
                reader.marked(self)

    def advance(self, offset: int, visible_bytes: int) -> None:
        """Make everything below `offset` visible, which is `visible_bytes` of all appended
        bytes."""
        self.high_watermark = offset
        counts = self.byte_counts
        gained_bytes = visible_bytes - counts.visible
        counts.visible = visible_bytes
        if counts.transaction_starts:
            assert self.log is not None
            producers = self.log.producers
            if producers.unreplicated:
                producers.forget_replicated(offset)
                counts.forget_transactions(self.last_stable_offset)
        if self.waiters:
            for waiter in list(self.waiters):
                waiter.advanced(self, gained_bytes)

    def wake_waiters(self) -> None:
        """Let waiting requests look again, although no more of the log is visible."""
        for waiter in list(self.waiters):
            waiter.advanced(self, 0)

    @property
    def lacks_replicas(self) -> bool:
        """True if `acks=all` must be refused because too few replicas are in sync."""
        return len(self.isr) < min(self.min_insync_replicas, self.replica_count)

    @property
    def has_too_few_replicas(self) -> bool:
        """True if records are committed by fewer replicas than `min.insync.replicas`."""
        leading = self.leading
        if leading is None:
            return False
        needed = min(self.min_insync_replicas, leading.replica_count)
        return len(leading.maximal_isr) < needed

    @property
    def is_catching_up(self) -> bool:
        """True after an election, while records of earlier terms above the high watermark may be
        committed, which is known only when the followers have fetched."""
        leading = self.leading
        return leading is not None and self.high_watermark < leading.epoch_start_offset

    # --- reading --------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which no transaction is open; without transactions, the high
        watermark."""
        log = self.log
        if log is not None:
            producers = log.producers
            if producers.ongoing or producers.unreplicated:
                unstable = producers.first_unstable_offset(self.high_watermark)
                if unstable is not None and unstable < self.high_watermark:
                    return max(unstable, log.log_start_offset)
        return self.high_watermark

    @property
    def stable_bytes(self) -> int:
        """The bytes below the last stable offset: their growth tells readers of committed data how
        much more they can read."""
        return self.byte_counts.stable

    @property
    def log_start_offset(self) -> int:
        return self.usable_log().log_start_offset

    def read(self, offset: int, bytes_max: int, *, min_one: bool) -> FileSlice | None:
        return self.usable_log().read(offset, bytes_max, self.high_watermark, min_one=min_one)

    def read_committed(
        self, offset: int, bytes_max: int, *, min_one: bool
    ) -> tuple[LogSlice | None, list[AbortedTransaction]]:
        """Read up to the last stable offset; also return the aborted transactions in there."""
        log = self.usable_log()
        records = log.read(offset, bytes_max, self.last_stable_offset, min_one=min_one)
        return records, [] if records is None else log.aborted_transactions_in(offset, records)


def flush_is_due(log: Log) -> bool:
    """True if `flush.messages` demands a flush before the last append counts. (`flush.ms` is
    handled by a timer of the log manager: nobody waits for it.)"""
    flush_messages = log.config.flush_messages
    return flush_messages < NEVER and log.unflushed_messages >= flush_messages
