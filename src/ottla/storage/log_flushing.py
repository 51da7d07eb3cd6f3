"""When the batches of a log count as safe, and what that takes."""

from __future__ import annotations

import logging
import os.path

from ottla.records.header import (
    LEADER_EPOCH_POSITION,
)
from ottla.storage import leader_epochs, partition_metadata
from ottla.storage.log_reading import ReadableLog
from ottla.storage.producer_state import snapshot_path
from ottla.storage.segment import Segment

logger = logging.getLogger("ottla.storage.log")

_AFTER_EPOCH = LEADER_EPOCH_POSITION + 4


class FlushableLog(ReadableLog):
    __slots__ = ()

    def flush_due(self, now_ms: int) -> bool:
        """Do `flush.messages` or `flush.ms` ask for a flush?"""
        unflushed = self.unflushed_messages
        if unflushed <= 0:
            return False
        return (
            unflushed >= self.config.flush_messages
            or now_ms - self.last_flush_ms >= self.config.flush_ms
        )

    def flush(self, upto: int | None = None) -> None:
        """Make everything below `upto` (the end, if not given) survive power loss.

        Meant for a thread. Appends may go on meanwhile; those after its start may not be covered.
        Flushes take turns, and one that finds its work done by another costs nothing.
        """
        with self._flush_turn:
            self._flush(upto)

    def _flush(self, upto: int | None = None) -> None:
        generation = self._generation
        target = self.end_offset if upto is None else min(upto, self.end_offset)
        point = self.recovery_point
        if target <= point or self.failure is not None:
            return
        try:
            self._sync_segments(self._segments, point, target)
        except OSError as error:
            if generation != self._generation or self.failure is not None:
                return  # The files went away under this thread, on purpose.
            self._fail(error)
        self._flushed = (generation, target)
        self.last_flush_ms = self._clock.wall_ms()

    def _sync_segments(self, segments: list[Segment], point: int, target: int) -> None:
        new_names, self._has_removed_names = self._has_removed_names, False
        for index, segment in enumerate(segments):
            is_last = index == len(segments) - 1
            if segment.base_offset >= target:
                break
            flushed_before = not is_last and segments[index + 1].base_offset <= point
            if flushed_before and not segment.is_cut:
                continue
            if not self._sync_segment(segment, with_indexes=not is_last):
                continue
            if not is_last:
                self._sync_snapshot(segments[index + 1].base_offset)
            new_names = new_names or not segment.folder_entry_synced
            segment.folder_entry_synced = True
        if self.epochs.dirty:
            self.epochs.write(self._disk, self._path(leader_epochs.FILE_NAME))
        if not self._identity_synced:
            self._sync_identity()
        elif new_names:
            self._disk.sync_dir(self.directory)

    def settle(self) -> None:
        """Make what was recovered durable. Meant for a thread, some time after an unclean start.

        Until then another crash may bring back what an earlier life had truncated, though never
        among or instead of data that a flush has promised to keep.
        """
        try:
            self.sync_cuts()
        except OSError as error:
            self._fail(error)
        self.flush()

    def sync_cuts(self) -> None:
        """Make truncations and removed names durable. Meant for a thread, soon after either."""
        with self._flush_turn:
            self._sync_cuts()

    def _sync_cuts(self) -> None:
        if self._has_removed_names:
            self._has_removed_names = False
            self._disk.sync_dir(self.directory)
        for segment in self._segments:
            if segment.is_cut:
                self._sync_segment(segment, with_indexes=False)

    def _sync_segment(self, segment: Segment, *, with_indexes: bool) -> bool:
        try:
            segment.sync(with_indexes=with_indexes)
        except FileNotFoundError:
            if segment in self._segments:
                raise
            return False  # Retention was faster.
        return True

    def _sync_snapshot(self, offset: int) -> None:
        if offset in self.producers.snapshots:
            try:
                file = self._disk.open(snapshot_path(self.directory, offset))
            except FileNotFoundError:
                return
            try:
                file.sync()
            finally:
                file.close()

    def _sync_identity(self) -> None:
        """The folder of a new partition, its name in the data folder and its topic id."""
        if self.topic_id is not None:
            file = self._disk.open(self._path(partition_metadata.FILE_NAME))
            try:
                file.sync()
            finally:
                file.close()
        self._disk.sync_dir(self.directory)
        self._disk.sync_dir(os.path.dirname(self.directory))
        self._identity_synced = True
