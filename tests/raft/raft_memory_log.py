"""A log in memory that forgets in a crash what was not flushed.

An entry is one record. Everywhere but in the ledger it is a number, so that two logs agree on an
offset if the numbers are the same: the epoch alone could be the same by mistake.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.broker.raft.ids import OffsetAndEpoch
from ottla.broker.raft.log_view import (
    BOOTSTRAP_SNAPSHOT,
    ControlRecord,
    InvalidRecords,
    SnapshotPart,
)
from ottla.buffers import Buffer
from ottla.protocol.control_records.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.control_records.leader_change_message import LeaderChangeMessage
from ottla.protocol.control_records.voters_record import VotersRecord
from ottla.protocol.schema import Records
from ottla.runtime.disk import FileSlice


class Entry(NamedTuple):
    epoch: int
    control: ControlRecord | None


class Ledger:
    """All entries that anybody ever wrote."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def write(self, epoch: int, control: ControlRecord | None = None) -> int:
        self.entries.append(Entry(epoch, control))
        return len(self.entries) - 1

    def epoch(self, number: int) -> int:
        return self.entries[number].epoch


def pack(offset: int, numbers: Sequence[int]) -> bytes:
    return array("q", (offset, *numbers)).tobytes()


def unpack(records: Buffer) -> tuple[int, list[int]]:
    numbers = array("q")
    numbers.frombytes(bytes(records))
    return numbers[0], list(numbers[1:])


class MemoryLog:
    """`LogView` and a disk. `numbers` reaches back to offset 0 even where the log does not: what
    a snapshot stands for is known to the test, not to the core."""

    def __init__(self, ledger: Ledger, bootstrap: Sequence[ControlRecord] = ()) -> None:
        self.ledger = ledger
        self.numbers: list[int] = []
        self.start_offset = 0
        self.snapshots: dict[OffsetAndEpoch, list[int]] = {}
        self.truncated: list[tuple[int, int]] = []
        """Offset and first entry of what was cut off, for the checker, which empties it."""
        self._bootstrap = list(bootstrap)
        self._incoming: dict[OffsetAndEpoch, bytearray] = {}
        self._durable: list[int] = []
        self._flushed = 0
        self._journal: list[tuple[int, list[int]]] = []
        """Since the last flush: cut at an offset, then append."""
        self._flushing: tuple[int, int] | None = None

    # LogView

    @property
    def end(self) -> OffsetAndEpoch:
        return self._end_of(self.numbers)

    def _end_of(self, numbers: list[int]) -> OffsetAndEpoch:
        return OffsetAndEpoch(len(numbers), self.ledger.epoch(numbers[-1]) if numbers else 0)

    @property
    def flushed_offset(self) -> int:
        return self._flushed

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        offset = len(self.numbers)
        while offset and self.ledger.epoch(self.numbers[offset - 1]) > epoch:
            offset -= 1
        return OffsetAndEpoch(offset, self.ledger.epoch(self.numbers[offset - 1]) if offset else 0)

    def read(self, offset: int, max_bytes: int) -> bytes:
        assert offset >= self.start_offset, "read of what is only in a snapshot"
        numbers = self.numbers[offset : offset + max(1, max_bytes // 8)]
        return pack(offset, numbers) if numbers else b""

    def append_control(self, records: Sequence[ControlRecord], epoch: int) -> int:
        self.append([self.ledger.write(epoch, record) for record in records])
        return len(self.numbers) - 1

    def append_fetched(self, records: Records) -> None:
        assert not isinstance(records, FileSlice)
        offset, numbers = unpack(records)
        if offset != len(self.numbers):
            raise InvalidRecords(f"{offset} does not continue {len(self.numbers)}")
        self.append(numbers)

    def truncate(self, offset: int) -> None:
        if offset >= len(self.numbers):
            return
        self.truncated.append((offset, self.numbers[offset]))
        del self.numbers[offset:]
        self._journal.append((offset, []))
        self._lower_flushed(offset)

    def control_records(self, offset: int) -> Iterable[tuple[int, ControlRecord]]:
        if offset < self.start_offset:
            for record in self._settled(self.start_offset):
                yield self.start_offset - 1, record
        for position in range(max(offset, self.start_offset), len(self.numbers)):
            control = self.ledger.entries[self.numbers[position]].control
            if control is not None:
                yield position, control

    def _settled(self, end_offset: int) -> list[ControlRecord]:
        """What a snapshot that ends here says of voters and versions."""
        found: dict[type, ControlRecord] = {type(each): each for each in self._bootstrap}
        for number in self.numbers[:end_offset]:
            control = self.ledger.entries[number].control
            if control is not None and not isinstance(control, LeaderChangeMessage):
                found[type(control)] = control
        return list(found.values())

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        latest = max(self.snapshots, default=None)
        return BOOTSTRAP_SNAPSHOT if latest is None and self._bootstrap else latest

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        at_start = [each for each in self.snapshots if each.offset == self.start_offset]
        return max(at_start, default=None)

    def read_snapshot(
        self, snapshot: OffsetAndEpoch, position: int, max_bytes: int
    ) -> SnapshotPart | None:
        if snapshot not in self.snapshots:
            return None
        content = pack(0, self.snapshots[snapshot])
        return SnapshotPart(len(content), content[position : position + max_bytes])

    def write_snapshot(self, snapshot: OffsetAndEpoch, position: int, records: Records) -> None:
        assert not isinstance(records, FileSlice)
        incoming = self._incoming.setdefault(snapshot, bytearray())
        del incoming[position:]
        incoming += records

    def restart_at_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        self.numbers = list(self.snapshots[snapshot])
        self.start_offset = snapshot.offset
        self._journal.append((0, list(self.numbers)))
        self._lower_flushed(0)

    # The driver's side

    def append(self, numbers: Sequence[int]) -> None:
        self._journal.append((len(self.numbers), list(numbers)))
        self.numbers += numbers

    def begin_flush(self) -> None:
        self._flushing = (len(self._journal), len(self.numbers))

    def finish_flush(self) -> None:
        assert self._flushing is not None
        (steps, end), self._flushing = self._flushing, None
        self._durable = _replay(self._durable, self._journal[:steps])
        del self._journal[:steps]
        self._flushed = max(self._flushed, end)

    def _lower_flushed(self, offset: int) -> None:
        self._flushed = min(self._flushed, offset)
        if self._flushing:
            self._flushing = (self._flushing[0], min(self._flushing[1], offset))

    def store_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """A fetched one is complete."""
        self.snapshots[snapshot] = unpack(self._incoming.pop(snapshot))[1]

    def take_snapshot(self, offset: int, *, trim: bool) -> None:
        """Of committed records; with `trim` the log forgets them."""
        epoch = self.ledger.epoch(self.numbers[offset - 1])
        self.snapshots[OffsetAndEpoch(offset, epoch)] = self.numbers[:offset]
        if trim:
            self.start_offset = offset
            for old in [each for each in self.snapshots if each.offset < offset]:
                del self.snapshots[old]

    def durable_numbers(self) -> list[int]:
        """What a crash now would leave at least."""
        latest = max(self.snapshots, default=None)
        if latest is None:
            return self._durable
        content = self.snapshots[latest]
        return self._durable if self._durable[: len(content)] == content else content

    def crash(self, chance: random.Random) -> None:
        """Forget what was not flushed, or some of it, as the disk likes."""
        survived = self._journal[: chance.randint(0, len(self._journal))]
        if survived:
            cut, numbers = survived[-1]
            survived[-1] = (cut, numbers[: chance.randint(0, len(numbers))])
        self.numbers = _replay(self._durable, survived)
        self._durable = list(self.numbers)
        self._journal.clear()
        self._incoming.clear()
        self._flushing = None
        self._flushed = len(self.numbers)
        first = self.earliest_snapshot
        if first is None or self.numbers[: first.offset] != self.snapshots[first]:
            self.start_offset = 0  # the old log is back, as it was before the snapshot


def _replay(durable: list[int], steps: Sequence[tuple[int, list[int]]]) -> list[int]:
    numbers = list(durable)
    for cut, appended in steps:
        del numbers[cut:]
        numbers += appended
    return numbers


def first_records(voters: VotersRecord) -> list[ControlRecord]:
    """The bootstrap snapshot of a quorum whose voters can change."""
    return [KRaftVersionRecord(k_raft_version=1), voters]
