"""The state of a partition's producers: epochs, sequences, open transactions.

The state is a function of the log: every append updates it, a snapshot file holds it at the base
offset of each segment, and recovery restores it from the last valid snapshot and the batches after
it.
"""

from __future__ import annotations

import os.path
import struct
from bisect import insort
from collections.abc import Iterable
from typing import NamedTuple

from ottla.broker.storage.names import DELETED_SUFFIX, SNAPSHOT_SUFFIX, offset_name
from ottla.broker.storage.producers.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from ottla.broker.storage.producers.verification import Verification
from ottla.broker.storage.segments.batch_scan import HeaderFields
from ottla.broker.storage.segments.transaction_index import AbortedTransaction
from ottla.buffers import Buffer
from ottla.records.header import CONTROL_BIT, TRANSACTIONAL_BIT
from ottla.records.header_fields import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    PRODUCER_EPOCH,
    PRODUCER_ID,
)
from ottla.records.reader import read_records
from ottla.runtime.disk import Disk

BATCHES_REMEMBERED = 5
"""The number of batches by which a retried batch is recognized: as many as a producer may have in
flight."""
NO_OFFSET = -1
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1
SEQUENCE_MODULUS = 1 << 31
"""Sequences are int32 and wrap around to 0."""


class BatchMemory(NamedTuple):
    """A producer's batch, as far as needed to recognize it when it is sent again."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @classmethod
    def of(cls, header: HeaderFields) -> BatchMemory:
        delta, base_sequence = header[LAST_OFFSET_DELTA], header[BASE_SEQUENCE]
        last_sequence = (base_sequence + delta) % SEQUENCE_MODULUS if base_sequence >= 0 else -1
        return cls(last_sequence, header[BASE_OFFSET] + delta, delta, header[MAX_TIMESTAMP])

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % SEQUENCE_MODULUS

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = -1
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = NO_OFFSET
        self.batches: list[BatchMemory] = []

    def add_batch(self, producer_epoch: int, batch: BatchMemory) -> None:
        batches = self.batches
        if producer_epoch != self.producer_epoch:
            self.adopt_epoch(producer_epoch)
        elif len(batches) == BATCHES_REMEMBERED:
            del batches[0]
        batches.append(batch)
        self.last_timestamp = batch.timestamp

    def adopt_epoch(self, producer_epoch: int) -> None:
        """Take a new epoch. Sequences start again with it, so the old batches no longer matter."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def find_batch(self, producer_epoch: int, first: int, last: int) -> BatchMemory | None:
        """Return the remembered batch with exactly these sequences, if the given one is a
        duplicate."""
        if producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.last_sequence == last and batch.first_sequence == first:
                    return batch
        return None

    def to_snapshot(self) -> SnapshotEntry:
        last = self.batches[-1] if self.batches else BatchMemory(-1, -1, 0, self.last_timestamp)
        return SnapshotEntry(
            self.producer_id,
            self.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.transaction_first_offset,
        )

    @classmethod
    def from_snapshot(cls, snapshot: SnapshotEntry) -> ProducerEntry:
        entry = cls(snapshot.producer_id)
        entry.producer_epoch = snapshot.producer_epoch
        entry.coordinator_epoch = snapshot.coordinator_epoch
        entry.last_timestamp = snapshot.timestamp
        entry.transaction_first_offset = snapshot.transaction_first_offset
        if snapshot.last_offset >= 0:
            last = BatchMemory(
                snapshot.last_sequence,
                snapshot.last_offset,
                snapshot.offset_delta,
                snapshot.timestamp,
            )
            entry.batches.append(last)
        return entry


class ProducerState:
    """All producers of one log, up to `end_offset`."""

    __slots__ = (
        "_snapshot_offset",
        "_snapshot_synced",
        "end_offset",
        "ongoing",
        "producers",
        "snapshots",
        "unreplicated",
        "verifications",
    )

    def __init__(self, snapshots: Iterable[int] = ()) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        self.ongoing: dict[int, int] = {}
        """First offset of each open transaction -> producer id, in ascending order of offsets."""
        self.unreplicated: list[tuple[int, int]] = []
        """(first, last) offset of ended transactions whose marker may not be replicated yet."""
        self.verifications: dict[int, Verification] = {}
        """By producer: transactions that a coordinator was asked about, and that are not open here
        yet. Only the leader has any, and they are never stored."""
        self.end_offset = 0
        self.snapshots = sorted(snapshots)
        """Offsets that have a snapshot file."""
        self._snapshot_offset = 0
        self._snapshot_synced = True

    def apply(self, header: HeaderFields, batch: Buffer) -> AbortedTransaction | None:
        """Apply a batch with a producer id; return the transaction that it aborts, if any, for the
        transaction index."""
        producer_id = header[PRODUCER_ID]
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        if header[ATTRIBUTES] & CONTROL_BIT:
            return self._apply_marker(entry, header, batch)
        entry.add_batch(header[PRODUCER_EPOCH], BatchMemory.of(header))
        if header[ATTRIBUTES] & TRANSACTIONAL_BIT and entry.transaction_first_offset == NO_OFFSET:
            entry.transaction_first_offset = header[BASE_OFFSET]
            self.ongoing[header[BASE_OFFSET]] = producer_id
        return None

    def _apply_marker(
        self, entry: ProducerEntry, header: HeaderFields, batch: Buffer
    ) -> AbortedTransaction | None:
        records = read_records(batch)
        if not records or records[0].key is None or records[0].value is None:
            return None
        _, kind = _MARKER_KEY.unpack_from(records[0].key)
        if kind not in (_ABORT, _COMMIT):
            return None
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(records[0].value)
        first_offset = entry.transaction_first_offset
        entry.adopt_epoch(header[PRODUCER_EPOCH])
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = records[0].timestamp
        entry.transaction_first_offset = NO_OFFSET
        if first_offset == NO_OFFSET:
            return None
        self.ongoing.pop(first_offset, None)
        insort(self.unreplicated, (first_offset, header[BASE_OFFSET]))
        if kind == _COMMIT:
            return None
        stable_offset = next(iter(self.ongoing), header[BASE_OFFSET] + 1)
        return AbortedTransaction(
            entry.producer_id, first_offset, header[BASE_OFFSET], stable_offset
        )

    def take_over(self, other: ProducerState) -> None:
        """Take over the state of `other`, but not its snapshot files."""
        self.producers = other.producers
        self.ongoing = other.ongoing
        self.unreplicated = other.unreplicated
        self.verifications = other.verifications
        self.end_offset = other.end_offset

    def first_undecided_offset(self) -> int | None:
        return next(iter(self.ongoing), None)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset that a reader of committed data must not see yet.

        A transaction holds readers back until its marker is below the high watermark too.
        """
        self.forget_replicated(high_watermark)
        undecided = self.first_undecided_offset()
        if not self.unreplicated:
            return undecided
        waiting = self.unreplicated[0][0]
        return waiting if undecided is None else min(undecided, waiting)

    def forget_replicated(self, high_watermark: int) -> None:
        """Remove transactions whose marker is below the high watermark: they hold no reader
        back."""
        waiting = self.unreplicated
        if waiting and any(last < high_watermark for _, last in waiting):
            self.unreplicated = [span for span in waiting if span[1] >= high_watermark]

    def expire(self, now_ms: int, idle_max_ms: int) -> None:
        """Remove producers that wrote nothing for long and have no open transaction."""
        gone = [
            producer_id
            for producer_id, entry in self.producers.items()
            if entry.transaction_first_offset == NO_OFFSET
            and now_ms - entry.last_timestamp >= idle_max_ms
        ]
        for producer_id in gone:
            del self.producers[producer_id]
        for producer_id, verification in list(self.verifications.items()):
            if now_ms - verification.asked_ms >= idle_max_ms:
                del self.verifications[producer_id]

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, epochs_grow: bool
    ) -> Verification:
        """Note that a coordinator is being asked whether this producer's transaction is open."""
        noted = self.verifications.get(producer_id)
        if noted is None:
            noted = Verification(now_ms, epoch, sequence, epochs_grow=epochs_grow)
            self.verifications[producer_id] = noted
        else:
            noted.also_for(epoch, sequence)
        return noted

    def clear(self, end_offset: int) -> None:
        self.producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self.verifications.clear()
        self.end_offset = end_offset
        self._snapshot_offset = end_offset

    def advance_start(self, log_start_offset: int) -> None:
        """The log start moved up: transactions that ended before it no longer matter to readers."""
        self.unreplicated = [span for span in self.unreplicated if span[1] >= log_start_offset]
        self.end_offset = max(self.end_offset, log_start_offset)

    # Snapshot files

    def take_snapshot(self, disk: Disk, directory: str, *, sync: bool = False) -> bool:
        """Write the state at `end_offset`, unless the last snapshot is the same.

        Returns True if a file was created whose name may not be durable yet.
        """
        if self.end_offset <= self._snapshot_offset and (self._snapshot_synced or not sync):
            return False
        file = disk.open(snapshot_path(directory, self.end_offset), create=True)
        try:
            data = encode_snapshot(entry.to_snapshot() for entry in self.producers.values())
            file.truncate(0)
            file.write_at(0, [data])
            if sync:
                file.sync()
        finally:
            file.close()
        if self.end_offset not in self.snapshots:
            insort(self.snapshots, self.end_offset)
        self._snapshot_offset = self.end_offset
        self._snapshot_synced = sync
        return True

    def load_snapshot(self, disk: Disk, directory: str, offset: int) -> None:
        """Replace the state by that of a snapshot; after `CorruptFile` it is empty."""
        self.clear(offset)
        path = snapshot_path(directory, offset)
        for snapshot in decode_snapshot(path, disk.read_bytes(path)):
            self.producers[snapshot.producer_id] = ProducerEntry.from_snapshot(snapshot)
        self.ongoing = {
            entry.transaction_first_offset: entry.producer_id
            for entry in sorted(self.producers.values(), key=_transaction_order)
            if entry.transaction_first_offset != NO_OFFSET
        }

    def mark_snapshot_deleted(self, disk: Disk, directory: str, offset: int) -> list[str]:
        """Rename the snapshot at `offset`, if there is one, and return its new path for the removal
        later."""
        if offset not in self.snapshots:
            return []
        self.snapshots.remove(offset)
        path = snapshot_path(directory, offset)
        try:
            disk.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            return []
        return [path + DELETED_SUFFIX]

    def remove_snapshot(self, disk: Disk, directory: str, offset: int) -> None:
        self.snapshots.remove(offset)
        try:
            disk.remove(snapshot_path(directory, offset))
        except FileNotFoundError:
            pass


def snapshot_path(directory: str, offset: int) -> str:
    return os.path.join(directory, offset_name(offset, SNAPSHOT_SUFFIX))


def _transaction_order(entry: ProducerEntry) -> int:
    return entry.transaction_first_offset
