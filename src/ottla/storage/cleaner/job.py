"""One log to be compacted, as plain data, and what comes out of it.

Nothing here refers to the log itself: the work may be done by another process, which only shares
the files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ottla.config.topic import TopicConfig

NO_DATA = -1


class SegmentFiles(NamedTuple):
    base_offset: int
    size: int
    has_transaction_index: bool


class LastRecord(NamedTuple):
    """The end of what an active producer wrote."""

    data_offset: int
    """The last offset of its last batch, `NO_DATA` if only a marker is known."""
    producer_epoch: int


class Memory(NamedTuple):
    """What one run may use."""

    map_bytes: int
    load_factor: float
    block_bytes: int


@dataclass(slots=True, frozen=True, kw_only=True)
class CleaningJob:
    directory: str
    config: TopicConfig
    segments: tuple[SegmentFiles, ...]
    """All below `uncleanable_offset`, oldest first."""
    later_segments: tuple[int, ...]
    """Base offsets of those above with a transaction index: markers may lie far behind the data."""
    first_dirty_offset: int
    uncleanable_offset: int
    now_ms: int
    producers: dict[int, LastRecord]
    memory: Memory


class RunLimits(NamedTuple):
    """Beside the job: how fast it may be done."""

    bytes_per_second: float


class Progress(NamedTuple):
    """So many bytes were read or written since the last word."""

    byte_count: int


class CleanedGroup(NamedTuple):
    """A new segment, whole and synced under its `.cleaned` name, and what it stands for."""

    base_offset: int
    replaced: tuple[int, ...]
    size: int
    has_transaction_index: bool


@dataclass(slots=True)
class CleaningStats:
    """Of one run over one log."""

    map_bytes_read: int = 0
    map_records_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    records_without_key: int = 0
    map_utilization: float = 0.0


@dataclass(slots=True)
class Finished:
    """The log is clean up to `end_offset`."""

    end_offset: int
    stats: CleaningStats = field(default_factory=CleaningStats)


class Failed(NamedTuple):
    """It cannot be done, now or ever."""

    reason: str
    error_number: int | None
    """Of the operating system; None where the log itself is damaged."""


Outcome: TypeAlias = CleanedGroup | Finished | Failed
