"""What a topic holds, kept in plain Python: the model that the Spark source is held against.

Nothing here asks a broker or Spark. Whoever writes to the real topic notes each record with the
place it was given, each end of a transaction, and all that became unreadable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Row(NamedTuple):
    """A record as Spark's columns show it; headers are None where there are none."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...] | None


class Fate(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass
class Transaction:
    fate: Fate = Fate.OPEN


@dataclass(frozen=True)
class Entry:
    row: Row
    transaction: Transaction | None


@dataclass
class ModelPartition:
    """The entries of one log in the order of their offsets; markers are gaps."""

    start: int = 0
    """What lies before was deleted."""
    entries: dict[int, Entry] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        offset = entry.row.offset
        assert offset not in self.entries, f"offset {offset} was given out twice: {entry.row}"
        self.entries[offset] = entry

    def in_order(self) -> list[Entry]:
        return [self.entries[offset] for offset in sorted(self.entries)]

    def stable_end(self) -> int:
        """A reader of committed records goes no further than the first open transaction."""
        unstable = [
            offset
            for offset, entry in self.entries.items()
            if entry.transaction is not None and entry.transaction.fate is Fate.OPEN
        ]
        return min(unstable, default=self.known_end())

    def known_end(self) -> int:
        """Behind the last record; markers may follow it."""
        return max(self.entries, default=self.start - 1) + 1

    def visible(self, *, committed_only: bool) -> Iterator[Entry]:
        stable_end = self.stable_end()
        for entry in self.in_order():
            if entry.row.offset < self.start:
                continue
            if committed_only:
                is_aborted = (
                    entry.transaction is not None and entry.transaction.fate is Fate.ABORTED
                )
                if is_aborted or entry.row.offset >= stable_end:
                    continue
            yield entry

    def first_at(self, timestamp_ms: int) -> int | None:
        """The offset that ListOffsets gives for a time."""
        for entry in self.in_order():
            if entry.row.offset >= self.start and entry.row.timestamp_ms >= timestamp_ms:
                return entry.row.offset
        return None

    def first_marker(self) -> int | None:
        """The first gap: where nothing was compacted, the end of a transaction."""
        offsets = range(self.start, self.known_end())
        return next((offset for offset in offsets if offset not in self.entries), None)


@dataclass
class ModelTopic:
    name: str
    partitions: list[ModelPartition]
    is_compacted: bool = False
    incarnation: int = 0
    """How often it was deleted and made anew."""

    def grow(self, partitions: int) -> None:
        self.partitions += [ModelPartition() for _ in range(partitions - len(self.partitions))]

    def recreate(self, partitions: int) -> None:
        self.incarnation += 1
        self.partitions = [ModelPartition() for _ in range(partitions)]

    def rows(self, *, committed_only: bool) -> list[Row]:
        return [
            entry.row
            for partition in self.partitions
            for entry in partition.visible(committed_only=committed_only)
        ]

    def kept_rows(self, *, committed_only: bool) -> list[Row]:
        """Those that compaction keeps whenever it runs: the newest of each key.

        What was aborted counts as never written, and what is open may yet be.
        """
        if not self.is_compacted:
            return self.rows(committed_only=committed_only)
        kept: list[Row] = []
        for partition in self.partitions:
            newest = {
                entry.row.key: entry.row.offset
                for entry in partition.in_order()
                if entry.transaction is None or entry.transaction.fate is not Fate.ABORTED
            }
            kept += [
                entry.row
                for entry in partition.visible(committed_only=committed_only)
                if newest.get(entry.row.key) == entry.row.offset
            ]
        return kept
