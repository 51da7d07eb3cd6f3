"""Metrics of compaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.storage.cleaner.job import CleaningStats


@dataclass(slots=True)
class CleanerMetrics:
    runs: int = 0
    """The number of logs cleaned completely."""
    broken_off: int = 0
    """Runs aborted because the log was truncated, deleted or lost its disk, or the disk was
    full."""
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    last_choice_ms: int = -1
    """When the logs were last checked."""
    last_run_ms: int = -1
    last_run_seconds: float = 0.0
    last_recopied_ratio: float = 0.0
    """Bytes written divided by bytes read."""
    last_map_utilization: float = 0.0
    greatest_dirty_ratio: float = 0.0
    """The greatest ratio of all logs when they were last checked."""
    greatest_delay_ms: int = 0
    """The most by which a log exceeded `max.compaction.lag.ms` when they were last checked."""

    def add(self, stats: CleaningStats, now_ms: int, seconds: float) -> None:
        self.runs += 1
        self.bytes_read += stats.bytes_read
        self.bytes_written += stats.bytes_written
        self.records_read += stats.records_read
        self.records_written += stats.records_written
        self.last_run_ms = now_ms
        self.last_run_seconds = seconds
        self.last_recopied_ratio = stats.bytes_written / max(stats.bytes_read, 1)
        self.last_map_utilization = stats.map_utilization
