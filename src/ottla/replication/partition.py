"""One replica of a partition on this broker: its log, and how much of it clients may rely on.

Two offsets tell the story of an appended record:

- `settled_offset`: up to here this broker has done what its flush settings ask for
  (`flush.messages`); an `acks=1` producer is answered when it passes its records.
- `high_watermark`: up to here every in-sync replica has settled; consumers see this much and an
  `acks=all` producer is answered here. With one replica the two move together.

A third one, the `last_stable_offset`, is for readers of committed data: it stays at the beginning
of the oldest open transaction until the end of that is below the high watermark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.control import end_txn_marker
from ottla.records.header import TRANSACTIONAL_BIT, BatchHeader, read_header
from ottla.runtime.disk import FileSlice
from ottla.storage.log import Appended, Log
from ottla.storage.log_reading import LogSlice
from ottla.storage.producer_checks import (
    check_coordinated,
    check_marker,
    check_produced,
    has_transaction,
)
from ottla.storage.transaction_index import AbortedTransaction
from ottla.storage.verification import Verification

NEVER: Final = 2**63 - 1
"""The default of `flush.messages`: the operating system decides when to write back."""


class Waiter(Protocol):
    """Somebody who waits in purgatory for this partition."""

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        """More of the log became visible."""
        ...

    def disturbed(self, partition: Partition) -> None:
        """The partition went offline, was deleted or changed its leader: look again."""
        ...


class TransactionEnd(NamedTuple):
    """What a coordinator has to say at the end of a transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int = 0
    """The protocol by which it ended; from 2 on the epoch is above that of the records."""


class Partition:
    __slots__ = (
        "_appended_bytes",
        "_create_log",
        "_flush_soon",
        "_flushing",
        "_transaction_starts",
        "_visible_bytes",
        "error",
        "high_watermark",
        "index",
        "isr",
        "leader_epoch",
        "leader_id",
        "log",
        "min_insync_replicas",
        "settled_offset",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        create_log: Callable[[Partition], Log],
        flush_soon: Callable[[Partition], None],
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_id = -1
        self.leader_epoch = -1
        self.isr: tuple[int, ...] = ()
        self.min_insync_replicas = 1
        self.error: ErrorCode | None = None
        """Why it cannot be used now (its log dir is offline, it is being deleted), if so."""
        self.waiters: dict[Waiter, None] = {}
        self._create_log = create_log
        self._flush_soon = flush_soon
        self._flushing = False
        self._appended_bytes = self._visible_bytes = 0
        self._transaction_starts: dict[int, int] = {}
        """For the first offset of each open transaction: how many bytes were appended before."""
        self.log: Log | None = None
        """None until the first use: a topic of thousands of partitions is created in no time, and
        its folders are made in the background or when they are needed, whichever is first."""
        self.settled_offset = self.high_watermark = 0

    def attach(self, log: Log) -> None:
        """Take over a log that was loaded or created: all that recovery left of it is visible."""
        self.log = log
        self.settled_offset = self.high_watermark = log.end_offset
        self._transaction_starts = dict.fromkeys(log.producers.ongoing, self._visible_bytes)

    # --- writing --------------------------------------------------------------------------------

    def append(
        self, batch: Buffer, header: BatchHeader, now_ms: int, *, checked: bool = False
    ) -> Appended:
        """Append a validated batch as the leader. What it carries of a producer has to be of its
        latest epoch, unless the caller has `checked` more than that."""
        log = self.usable_log()
        if header[9] >= 0 and not checked:
            check_coordinated(log.producers, header)
        appended = log.append(batch, header, self.leader_epoch, now_ms)
        if header[5] & TRANSACTIONAL_BIT and appended[0] in log.producers.ongoing:
            self._transaction_starts[appended[0]] = self._appended_bytes
        self._appended_bytes += len(batch)
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

    def begin_flush(self) -> tuple[int, int]:
        """What the flush that starts now will cover: (end offset, bytes appended so far)."""
        return self.usable_log().end_offset, self._appended_bytes

    def end_flush(self, covered: tuple[int, int]) -> bool:
        """A flush is done; True if another one is due at once (its group commit has gathered)."""
        log = self.log
        if log is None or self.error is not None:
            self._flushing = False
            return False
        if _flush_is_due(log):
            self._settle(*covered)
            return True
        self._flushing = False
        self._settle(log.end_offset, self._appended_bytes)
        return False

    def _settle(self, offset: int, appended_bytes: int) -> None:
        self.settled_offset = offset
        if offset > self.high_watermark:
            self.high_watermark = offset
            gained_bytes = appended_bytes - self._visible_bytes
            self._visible_bytes = appended_bytes
            if self._transaction_starts:
                self._forget_transactions()
            if self.waiters:
                for waiter in list(self.waiters):
                    waiter.advanced(self, gained_bytes)

    def _forget_transactions(self) -> None:
        """Those that ended below the high watermark hold nobody back any more."""
        assert self.log is not None
        producers = self.log.producers
        if not producers.unreplicated:
            return
        producers.forget_replicated(self.high_watermark)
        stable_offset = self.last_stable_offset
        starts = self._transaction_starts
        while starts and (first := next(iter(starts))) < stable_offset:
            del starts[first]

    @property
    def lacks_replicas(self) -> bool:
        """Whether `acks=all` must be refused for want of in-sync replicas."""
        return len(self.isr) < self.min_insync_replicas

    # --- reading --------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """Up to here no transaction is open; without transactions, the high watermark."""
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
        """How many of the bytes appended in this life of the broker are below the last stable
        offset: its growth tells readers of committed data how much more there is for them."""
        # The oldest one: those before it were forgotten when the high watermark passed their ends.
        bytes_before = next(iter(self._transaction_starts.values()), self._visible_bytes)
        return min(bytes_before, self._visible_bytes)

    @property
    def log_start_offset(self) -> int:
        return self.usable_log().log_start_offset

    def read(self, offset: int, bytes_max: int, *, min_one: bool) -> FileSlice | None:
        return self.usable_log().read(offset, bytes_max, self.high_watermark, min_one=min_one)

    def read_committed(
        self, offset: int, bytes_max: int, *, min_one: bool
    ) -> tuple[LogSlice | None, list[AbortedTransaction]]:
        """Up to the last stable offset, and which transactions in there were aborted."""
        log = self.usable_log()
        records = log.read(offset, bytes_max, self.last_stable_offset, min_one=min_one)
        return records, [] if records is None else log.aborted_transactions_in(offset, records)

    def check_leader_epoch(self, known_epoch: int) -> None:
        """Refuse a client that follows another leader than this one; -1 knows none."""
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

    # --- life -----------------------------------------------------------------------------------

    def usable_log(self) -> Log:
        if self.error is not None:
            raise KafkaError(self.error, f"{self} cannot be used: {self.error.name}")
        if self.log is None:
            self.attach(self._create_log(self))
        assert self.log is not None
        return self.log

    def set_error(self, error: ErrorCode) -> None:
        """Take it out of use; everyone who waits for it looks again and finds the error."""
        self.error = error
        for waiter in list(self.waiters):
            waiter.disturbed(self)

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


def _flush_is_due(log: Log) -> bool:
    """Whether `flush.messages` asks for a flush before the last append counts. (`flush.ms` is a
    matter of the log manager's timer: nobody waits for it.)"""
    flush_messages = log.config.flush_messages
    return flush_messages < NEVER and log.unflushed_messages >= flush_messages
