"""One replica of a partition on this broker: its log, and how much of it clients may rely on.

Two offsets tell the story of an appended record:

- `settled_offset`: up to here this broker has done what its flush settings ask for
  (`flush.messages`); an `acks=1` producer is answered when it passes its records.
- `high_watermark`: up to here every in-sync replica has settled; consumers see this much and an
  `acks=all` producer is answered here. With one replica the two move together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.header import BatchHeader
from ottla.runtime.disk import FileSlice
from ottla.storage.log import Appended, Log

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


class Partition:
    __slots__ = (
        "_appended_bytes",
        "_create_log",
        "_flush_soon",
        "_flushing",
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
        self.log: Log | None = None
        """None until the first use: a topic of thousands of partitions is created in no time, and
        its folders are made in the background or when they are needed, whichever is first."""
        self.settled_offset = self.high_watermark = 0

    def attach(self, log: Log) -> None:
        """Take over a log that was loaded or created: all that recovery left of it is visible."""
        self.log = log
        self.settled_offset = self.high_watermark = log.end_offset

    # --- writing --------------------------------------------------------------------------------

    def append(self, batch: Buffer, header: BatchHeader, now_ms: int) -> Appended:
        """Append a validated batch as the leader."""
        log = self.usable_log()
        appended = log.append(batch, header, self.leader_epoch, now_ms)
        self._appended_bytes += len(batch)
        if self._flushing:
            return appended  # Visible once the flush under way, or the one after it, is done.
        if _flush_is_due(log):
            self._flushing = True
            self._flush_soon(self)
        else:
            self._settle(log.end_offset, self._appended_bytes)
        return appended

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
            if self.waiters:
                for waiter in list(self.waiters):
                    waiter.advanced(self, gained_bytes)

    @property
    def lacks_replicas(self) -> bool:
        """Whether `acks=all` must be refused for want of in-sync replicas."""
        return len(self.isr) < self.min_insync_replicas

    # --- reading --------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """Up to here no transaction is open; without transactions, the high watermark."""
        return self.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self.usable_log().log_start_offset

    def read(self, offset: int, bytes_max: int, *, min_one: bool) -> FileSlice | None:
        return self.usable_log().read(offset, bytes_max, self.high_watermark, min_one=min_one)

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
