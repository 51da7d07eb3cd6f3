"""What the core needs of the log it agrees on. The driver's log has these methods.

Reading and appending happen at once, in memory or page cache. Only durability takes time: the core
asks for a flush as an effect and goes by `flushed_offset`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from ottla.protocol.control_records.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.control_records.leader_change_message import LeaderChangeMessage
from ottla.protocol.control_records.voters_record import VotersRecord
from ottla.protocol.schema import Records
from ottla.raft.ids import OffsetAndEpoch

ControlRecord = LeaderChangeMessage | KRaftVersionRecord | VotersRecord

EMPTY_LOG = OffsetAndEpoch(0, 0)
"""Epoch 0 has no leader and no records: it is the end of a log in which nothing is."""

BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)
"""The snapshot that formatting the storage writes. It is never replicated: the first leader
writes into the log what matters of it."""


class InvalidRecords(Exception):
    """What was fetched is no sequence of whole batches that continues the log."""


class SnapshotPart(NamedTuple):
    size: int
    """Of the whole snapshot, in bytes."""
    records: Records


class LogView(Protocol):
    @property
    def start_offset(self) -> int: ...

    @property
    def end(self) -> OffsetAndEpoch:
        """The next offset, and the epoch of the last record; of the latest snapshot if the log is
        empty after it; `EMPTY_LOG` if there is neither."""

    @property
    def flushed_offset(self) -> int:
        """Everything before it survives a crash. Never past the end: truncation lowers it."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Where the largest epoch up to this one ends, and which it is. The snapshot that the log
        begins with counts as a record of its epoch."""

    def read(self, offset: int, max_bytes: int) -> Records:
        """Whole batches from the one with this offset, at least one if there is one."""

    def append_control(self, records: Sequence[ControlRecord], epoch: int) -> int:
        """Append one control batch as the leader; the offset of its last record."""

    def append_fetched(self, records: Records) -> None:
        """Append what the leader sent, as it is. `InvalidRecords` if it cannot be appended."""

    def truncate(self, offset: int) -> None:
        """Forget this offset and everything after it."""

    def control_records(self, offset: int) -> Iterable[tuple[int, ControlRecord]]:
        """The control records from this offset on. Where the log begins later, those of the
        snapshot it begins with come first, with the offset before the snapshot's end: -1 for the
        one that formatting the storage wrote."""

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None: ...

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The snapshot at which the log starts; None if it starts at 0."""

    def read_snapshot(
        self, snapshot: OffsetAndEpoch, position: int, max_bytes: int
    ) -> SnapshotPart | None:
        """None if there is no such snapshot."""

    def write_snapshot(self, snapshot: OffsetAndEpoch, position: int, records: Records) -> None:
        """A part of a snapshot that is being fetched; one at position 0 begins it anew."""

    def restart_at_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Drop the whole log: it goes on at the end of this stored snapshot. Until a flush is done
        a crash may bring the old one back, so nothing is flushed."""


def has(log: LogView, snapshot: OffsetAndEpoch) -> bool:
    """The log holds the last record of this snapshot, and with it all others, or begins later.

    A longer log may lack it all the same: with records of a leader that never committed them.
    """
    if snapshot.offset <= log.start_offset:
        return True
    end = log.end_offset_for_epoch(snapshot.epoch)
    return end.epoch == snapshot.epoch and end.offset >= snapshot.offset
