"""A log to compact, as plain data, and the results.

Nothing here refers to the log object: the work may be done by another process, which only shares
the files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ottla.config.topic import TopicConfig

NO_DATA = -1


class JobSegment(NamedTuple):
    base_offset: int
    size: int
    has_transaction_index: bool


class LastRecord(NamedTuple):
    """The end of an active producer's data."""

    data_offset: int
    """The last offset of its last batch; `NO_DATA` if only a marker is known."""
    producer_epoch: int


class Memory(NamedTuple):
    """The memory that one run may use."""

    map_bytes: int
    load_factor: float
    block_bytes: int


@dataclass(slots=True, frozen=True, kw_only=True)
class CleaningJob:
    directory: str
    config: TopicConfig
    segments: tuple[JobSegment, ...]
    """All segments below `uncleanable_offset`, oldest first."""
    later_segments: tuple[int, ...]
    """Base offsets of later segments with a transaction index: markers may be far behind the
    data."""
    first_dirty_offset: int
    uncleanable_offset: int
    now_ms: int
    producers: dict[int, LastRecord]
    memory: Memory


class RunLimits(NamedTuple):
    """How fast the job may run."""

    bytes_per_second: float


class Progress(NamedTuple):
    """The number of bytes read or written since the last step."""

    byte_count: int


class CleanedGroup(NamedTuple):
    """A new segment, complete and synced under its `.cleaned` name, and the segments it
    replaces."""

    base_offset: int
    replaced: tuple[int, ...]
    size: int
    has_transaction_index: bool


@dataclass(slots=True)
class CleaningStats:
    """Figures of one cleaning of one log."""

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
    """The compaction has failed."""

    reason: str
    error_number: int | None
    """The errno of the operating system; None if the log itself is damaged."""


Outcome: TypeAlias = CleanedGroup | Finished | Failed
