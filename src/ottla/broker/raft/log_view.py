"""The part of a log's interface that the core needs. The driver's log implements it.

Reads and appends are immediate, in memory or page cache. Only durability takes time: the core
requests a flush as an effect and relies on `flushed_offset`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from ottla.broker.raft.ids import OffsetAndEpoch
from ottla.protocol.control_records.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.control_records.leader_change_message import LeaderChangeMessage
from ottla.protocol.control_records.voters_record import VotersRecord
from ottla.protocol.schema import Records

ControlRecord = LeaderChangeMessage | KRaftVersionRecord | VotersRecord

EMPTY_LOG = OffsetAndEpoch(0, 0)
"""The end of an empty log: epoch 0 has no leader and no records."""

BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)
"""The snapshot that formatting the storage writes. It is never replicated: the first leader writes
its relevant content into the log."""


class InvalidRecords(Exception):
    """The fetched bytes are not whole batches that continue the log."""


class SnapshotPart(NamedTuple):
    size: int
    """The size of the whole snapshot in bytes."""
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
        """Return the end of the largest epoch up to this one, and that epoch. The snapshot that the
        log begins with counts as a record of its epoch."""

    def read(self, offset: int, max_bytes: int) -> Records:
        """Return whole batches from the one with this offset, at least one if there is one."""

    def append_control(self, records: Sequence[ControlRecord], epoch: int) -> int:
        """Append one control batch as the leader; return the offset of its last record."""

    def append_fetched(self, records: Records) -> None:
        """Append the leader's records as they are. Raises `InvalidRecords` if they do not fit."""

    def truncate(self, offset: int) -> None:
        """Remove this offset and everything after it."""

    def control_records(self, offset: int) -> Iterable[tuple[int, ControlRecord]]:
        """Return the control records from this offset on. If the log begins later, those of its
        first snapshot come first, with the offset before the snapshot's end: -1 for the snapshot
        that formatting the storage wrote."""

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None: ...

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The snapshot at which the log starts; None if it starts at 0."""

    def read_snapshot(
        self, snapshot: OffsetAndEpoch, position: int, max_bytes: int
    ) -> SnapshotPart | None:
        """Return a part of a snapshot; None if there is no such snapshot."""

    def write_snapshot(self, snapshot: OffsetAndEpoch, position: int, records: Records) -> None:
        """Write a part of a snapshot that is being fetched; position 0 starts it again."""

    def restart_at_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Drop the whole log and continue at the end of this stored snapshot. Until a flush is done
        a crash may bring the old log back, so nothing counts as flushed."""


def has(log: LogView, snapshot: OffsetAndEpoch) -> bool:
    """True if the log contains the last record of this snapshot, and thereby all others, or begins
    later.

    A longer log may still lack it: it may have records of a leader that never committed them.
    """
    if snapshot.offset <= log.start_offset:
        return True
    end = log.end_offset_for_epoch(snapshot.epoch)
    return end.epoch == snapshot.epoch and end.offset >= snapshot.offset
