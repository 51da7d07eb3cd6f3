"""The history of a run as clients saw it. Every record has a unique value that identifies it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ottla.client.values import TopicPartition as Partition


class Outcome(Enum):
    """The answer a client got. UNKNOWN: no certain answer, the record may be there or not."""

    UNKNOWN = "unknown"
    OK = "ok"
    """Acknowledged; for a transaction: committed."""
    ABORTED = "aborted"
    """The abort of the transaction was acknowledged."""


@dataclass
class Transaction:
    producer: str
    end_asked_s: float | None = None
    """When its commit was first requested: nobody may have read its records before."""
    outcome: Outcome = Outcome.UNKNOWN


@dataclass
class Sending:
    """A record that was sent to a partition."""

    value: str
    producer: str
    partition: Partition
    durable: bool = True
    """Sent with acks=all: once acknowledged it may not be lost."""
    once: bool = True
    """Sent by an idempotent producer: it may not be there twice."""
    transaction: Transaction | None = None
    key: str | None = None
    """In a table: later records of the same key may replace this one."""
    offset: int | None = None
    outcome: Outcome = Outcome.UNKNOWN

    @property
    def is_promised(self) -> bool:
        return self.durable and self.outcome is Outcome.OK

    def acknowledged(self, offset: int) -> None:
        self.offset = offset
        self.outcome = Outcome.OK


class Seen(NamedTuple):
    partition: Partition
    offset: int
    value: str
    at_s: float


@dataclass
class Reader:
    """A stretch of reading: a seek, a new assignment or a new consumer begins another one."""

    name: str
    committed: bool = False
    group: str | None = None
    seen: list[Seen] = field(default_factory=list)

    def read(self, partition: Partition, offset: int, value: str, at_s: float) -> None:
        self.seen.append(Seen(partition, offset, value, at_s))


class Log(NamedTuple):
    """A whole partition as it is read after the run."""

    start: int
    end: int
    records: tuple[tuple[int, str], ...]
    """All records, including those of aborted transactions."""
    committed: tuple[tuple[int, str], ...]
    """The records that a reader of committed records is given."""


@dataclass
class History:
    sendings: list[Sending] = field(default_factory=list)
    """All records that were sent, in the order of each producer."""
    transactions: list[Transaction] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    logs: dict[Partition, Log] = field(default_factory=dict)
    group_ends: dict[tuple[str, Partition], tuple[int, int]] = field(default_factory=dict)
    """For a group and a partition: the offset it began at, and the last offset it committed."""
    deleted: dict[Partition, int] = field(default_factory=dict)
    """For a partition: the highest offset before which a client asked to delete records."""
    copies: dict[str, str] = field(default_factory=dict)
    """Topics that were copied exactly once, partition by partition: topic -> its copy."""

    def sending(self, sending: Sending) -> Sending:
        self.sendings.append(sending)
        return sending

    def begin(self, producer: str) -> Transaction:
        self.transactions.append(Transaction(producer))
        return self.transactions[-1]

    def reader(self, name: str, *, committed: bool = False, group: str | None = None) -> Reader:
        self.readers.append(Reader(name, committed, group))
        return self.readers[-1]

    def deleting(self, partition: Partition, before: int) -> None:
        self.deleted[partition] = max(before, self.deleted.get(partition, 0))

    def end(
        self,
        partition: Partition,
        records: Iterable[tuple[int, str]],
        committed: Iterable[tuple[int, str]] | None = None,
        *,
        start: int = 0,
        end: int | None = None,
    ) -> None:
        """Store what the partition holds after the run."""
        everything: Sequence[tuple[int, str]] = tuple(records)
        visible = everything if committed is None else tuple(committed)
        last = end if end is not None else everything[-1][0] + 1 if everything else start
        self.logs[partition] = Log(start, last, tuple(everything), tuple(visible))

    def unpassable(self, partition: Partition, *, committed: bool) -> list[int]:
        """Return the offsets of the records that no reader can pass without being given them.

        Records that a client asked to delete do not count, even if they are there at the end: a
        leader moves the start of its log at once, but keeps it only in memory until the next
        checkpoint. Readers start after those records; if all replicas that knew crash, the records
        are back.

        In a table only the last record of each key counts: each replica compacts its own log, so
        one replica may still have a record that another has removed.
        """
        log = self.logs[partition]
        records = log.committed if committed else log.records
        asked = self.deleted.get(partition, 0)
        keys = {
            one.value: one.key
            for one in self.sendings
            if one.key is not None and one.partition == partition
        }
        last = {keys[value]: offset for offset, value in log.committed if value in keys}
        return [
            offset
            for offset, value in records
            if offset >= asked and (value not in keys or last.get(keys[value]) == offset)
        ]
