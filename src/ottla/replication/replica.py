"""One replica of a partition on this broker, whoever leads it: its log and its offsets.

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
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.disk import FileSlice
from ottla.storage.log import Log
from ottla.storage.log_reading import LogSlice
from ottla.storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

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


class Replica:
    """The part of a partition that leader and follower have in common."""

    __slots__ = (
        "_appended_bytes",
        "_create_log",
        "_transaction_starts",
        "_visible_bytes",
        "error",
        "high_watermark",
        "index",
        "leader_epoch",
        "leader_id",
        "log",
        "settled_offset",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(
        self, topic: str, topic_id: bytes, index: int, create_log: Callable[[Any], Log]
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_id = -1
        self.leader_epoch = -1
        self.error: ErrorCode | None = None
        """Why it cannot be used now (its log dir is offline, it is being deleted), if so."""
        self.waiters: dict[Waiter, None] = {}
        self._create_log = create_log
        self._appended_bytes = self._visible_bytes = 0
        self._transaction_starts: dict[int, int] = {}
        """For the first offset of each open transaction: how many bytes were appended before."""
        self.log: Log | None = None
        """None until the first use: a topic of thousands of partitions is created in no time, and
        its folders are made in the background or when they are needed, whichever is first."""
        self.settled_offset = self.high_watermark = 0

    def attach(self, log: Log, high_watermark: int | None = None) -> None:
        """Take over a log that was loaded or created. All that recovery left of it is visible,
        unless other replicas have a say in it: then what a checkpoint tells."""
        self.log = log
        self.settled_offset = self.high_watermark = log.end_offset
        if high_watermark is not None:
            self.high_watermark = max(log.log_start_offset, min(high_watermark, log.end_offset))
        self._recount(log)

    def replace_log(self, log: Log) -> None:
        """Go on with a copy of the log, which holds the same records."""
        self.log = log

    def _recount(self, log: Log) -> None:
        """The log is another one now: hidden records count as at least a byte each."""
        hidden = log.end_offset - self.high_watermark
        self._appended_bytes = self._visible_bytes + hidden
        self._transaction_starts = dict.fromkeys(log.producers.ongoing, self._visible_bytes)

    # --- the high watermark ---------------------------------------------------------------------

    def _advance(self, offset: int, visible_bytes: int) -> None:
        """All below `offset` became visible, which is `visible_bytes` of what was ever appended."""
        self.high_watermark = offset
        gained_bytes = visible_bytes - self._visible_bytes
        self._visible_bytes = visible_bytes
        if self._transaction_starts:
            self._forget_transactions()
        if self.waiters:
            for waiter in list(self.waiters):
                waiter.advanced(self, gained_bytes)  # type: ignore[arg-type]

    def _visible_at(self, offset: int) -> int:
        """About how many of the appended bytes lie below `offset`; exact at the end of the log. It
        is what readers that wait for a number of bytes are told."""
        assert self.log is not None
        hidden = self.log.end_offset - self.high_watermark
        gained = offset - self.high_watermark
        if gained >= hidden:
            return self._appended_bytes
        hidden_bytes = self._appended_bytes - self._visible_bytes
        return self._visible_bytes + max(1, hidden_bytes * gained // hidden)

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
        self._disturb()

    def _disturb(self) -> None:
        for waiter in list(self.waiters):
            waiter.disturbed(self)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"
