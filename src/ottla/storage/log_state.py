"""What a log is made of, and what every part of it needs to know."""

from __future__ import annotations

import logging
import os.path
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from ottla.config.topic import TopicConfig
from ottla.records.header import (
    LEADER_EPOCH_POSITION,
)
from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk
from ottla.storage.errors import (
    LogDirFailure,
)
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.producer_state import ProducerState
from ottla.storage.recent_batches import RecentBatches
from ottla.storage.recovery import LoadedLog
from ottla.storage.replacement import Replacement
from ottla.storage.segment import Segment
from ottla.storage.turn import Turn

logger = logging.getLogger("ottla.storage.log")

_AFTER_EPOCH = LEADER_EPOCH_POSITION + 4


class PendingDeletion(NamedTuple):
    """Files that were renamed and wait for their removal."""

    due_ms: int
    paths: list[str]


class LogState:
    """The bottom of a ladder: reading, flushing, shaping and at last `Log` build on it."""

    __slots__ = (
        "_active",
        "_clock",
        "_disk",
        "_epoch",
        "_flush_turn",
        "_flushed",
        "_generation",
        "_has_removed_names",
        "_identity_synced",
        "_recent",
        "_replacement",
        "_segments",
        "_truncated_point",
        "config",
        "directory",
        "end_offset",
        "epochs",
        "failure",
        "last_flush_ms",
        "log_start_offset",
        "on_roll",
        "on_truncate",
        "partition",
        "pending_deletions",
        "producers",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic: str,
        partition: int,
        config: TopicConfig,
        clock: Clock,
        loaded: LoadedLog,
        topic_id: bytes | None,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        self.end_offset = loaded.end_offset
        self.epochs: LeaderEpochs = loaded.epochs
        self.producers: ProducerState = loaded.producers
        self._segments = loaded.segments
        self._active = loaded.segments[-1]
        self._epoch = loaded.epochs.latest
        self._recent = RecentBatches()
        # A flush in a thread may end after a truncation in the loop: its result then belongs to an
        # older generation of the log and is not believed.
        self._generation = 0
        self._replacement: Replacement | None = None
        """Compacted segments on their way into this log."""
        self._flush_turn = Turn()
        self._flushed = (0, loaded.recovery_point)
        self._truncated_point = loaded.recovery_point
        self._identity_synced = True
        # Segments cut off the end must not come back after power loss beside their successors.
        self._has_removed_names = False
        self.last_flush_ms = clock.wall_ms()
        self.failure: str | None = None
        self.pending_deletions: list[PendingDeletion] = []
        self.on_roll: Callable[[Any], None] | None = None
        """Called when a segment was rolled: it is time to flush the one before, in a thread."""
        self.on_truncate: Callable[[Any], None] | None = None
        """Called when the recovery point went back: the checkpoint on disk must follow."""

    @property
    def recovery_point(self) -> int:
        """All below is safely on disk."""
        generation, offset = self._flushed
        return offset if generation == self._generation else self._truncated_point

    @property
    def generation(self) -> int:
        """Another one each time that the log loses its end."""
        return self._generation

    @property
    def parent_directory(self) -> str:
        """The data folder."""
        return os.path.dirname(self.directory)

    @property
    def first_segment_offset(self) -> int:
        return self._segments[0].base_offset

    @property
    def active_segment_offset(self) -> int:
        return self._active.base_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def segments(self) -> list[Segment]:
        """Oldest first; the last one is active."""
        return list(self._segments)

    @property
    def unflushed_messages(self) -> int:
        return self.end_offset - self.recovery_point

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last leader that appended, -1 if there was none."""
        return self._epoch

    def __repr__(self) -> str:
        return f"Log({self.directory!r}, {self.log_start_offset} to {self.end_offset})"

    def update_config(self, config: TopicConfig) -> None:
        """Holds from the next append, roll and retention check on."""
        self.config = config

    def _segment_index(self, offset: int) -> int:
        """The last segment that does not begin after `offset`."""
        return max(0, bisect_right(self._segments, offset, key=_base_offset_of) - 1)

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _add_segment(self, base_offset: int) -> None:
        segment = Segment.create(
            self._disk, self.directory, base_offset, self.config, self._clock.wall_ms()
        )
        # A new list, so that a flush in a thread keeps the one it began with.
        self._segments = [*self._segments, segment]
        self._active = segment
        self._recent.clear()

    def _release(self) -> None:
        for segment in self._segments:
            segment.release()

    def fail(self, cause: BaseException) -> None:
        """The disk is gone: refuse everything from now on, and let go of what can be let go."""
        self.failure = f"offline, its disk failed: {cause}"
        self._release()

    def _fail(self, error: OSError) -> NoReturn:
        """From now on this log only refuses; the owner of its data folder takes that offline."""
        parent = os.path.dirname(self.directory)
        self.failure = f"offline, its disk failed: {error}"
        logger.error("Log %s failed: %s", self.directory, error)
        raise LogDirFailure(parent, error) from error


def _base_offset_of(segment: Segment) -> int:
    return segment.base_offset
