"""Makes the batches of a log durable.

A flush syncs the batches, the names of new files and the leader epochs before it moves the recovery
point. It runs in a thread and may end after a truncation in the loop: its result then belongs to an
older generation of the log and is ignored.
"""

from __future__ import annotations

import os.path

from ottla.broker.storage import leader_epochs
from ottla.broker.storage.dirs import partition_metadata
from ottla.broker.storage.exclusive import Exclusive
from ottla.broker.storage.leader_epochs import LeaderEpochs
from ottla.broker.storage.producers.state import ProducerState, snapshot_path
from ottla.broker.storage.segments.segment import Segment
from ottla.broker.storage.segments.segments import Segments
from ottla.runtime.clock import Clock


class Flusher:
    """Knows which part of a log is durable. All methods that sync are for threads; the caller holds
    `exclusive`."""

    __slots__ = (
        "_clock",
        "_epochs",
        "_flushed",
        "_has_topic_id",
        "_is_new_folder",
        "_producers",
        "_segments",
        "_truncated_point",
        "exclusive",
        "generation",
        "has_removed_names",
        "last_flush_ms",
    )

    def __init__(
        self,
        segments: Segments,
        epochs: LeaderEpochs,
        producers: ProducerState,
        clock: Clock,
        recovery_point: int,
        *,
        is_new_folder: bool,
        has_topic_id: bool,
    ) -> None:
        """`is_new_folder`: the name of the folder and its topic id may not be durable yet."""
        self._segments = segments
        self._epochs = epochs
        self._producers = producers
        self._clock = clock
        self._is_new_folder = is_new_folder
        self._has_topic_id = has_topic_id
        self._flushed = (0, recovery_point)
        self._truncated_point = recovery_point
        self.exclusive = Exclusive()
        self.generation = 0
        """Changes each time that the log is truncated."""
        self.has_removed_names = False
        """True if deleted names are not durable yet. Truncated segments must not come back after a
        power failure beside their successors."""
        self.last_flush_ms = clock.wall_ms()

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is safely on disk."""
        generation, offset = self._flushed
        return offset if generation == self.generation else self._truncated_point

    def truncated(self, end_offset: int) -> None:
        """Move the recovery point back; flushes that began before do not move it forward again."""
        self._truncated_point = min(self.recovery_point, end_offset)
        self.generation += 1
        self._flushed = (self.generation, self._truncated_point)

    def cancel(self) -> None:
        """Ignore the results of flushes that have begun."""
        self.generation += 1

    def flush_to(self, target: int, generation: int) -> None:
        """Make everything below the offset `target` survive a power failure.

        `generation` is that of the log before `target` was read.
        """
        point = self.recovery_point
        if target <= point:
            return
        try:
            self._sync_segments(list(self._segments), point, target)
        except OSError:
            if generation != self.generation:
                return  # The files were removed meanwhile, on purpose.
            raise
        self._flushed = (generation, target)
        self.last_flush_ms = self._clock.wall_ms()

    def _sync_segments(self, segments: list[Segment], point: int, target: int) -> None:
        removed, self.has_removed_names = self.has_removed_names, False
        try:
            added = self._sync_files(segments, point, target)
            if self._is_new_folder:
                self._sync_new_folder()
            elif removed or added:
                self._segments.disk.sync_dir(self._segments.directory)
        except OSError:
            # The error is ignored if the log was truncated meanwhile: names stay to be synced.
            self.has_removed_names = self.has_removed_names or removed
            raise
        for segment in added:
            segment.folder_entry_synced = True

    def _sync_files(self, segments: list[Segment], point: int, target: int) -> list[Segment]:
        """Sync the files, and return the segments whose names are not durable yet."""
        added = []
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
            if not segment.folder_entry_synced:
                added.append(segment)
        self.write_epochs()
        return added

    def sync_cuts(self) -> None:
        """Make truncations and removed names durable."""
        if self.has_removed_names:
            self.has_removed_names = False
            try:
                self._segments.disk.sync_dir(self._segments.directory)
            except OSError:
                self.has_removed_names = True
                raise
        for segment in self._segments:
            if segment.is_cut:
                self._sync_segment(segment, with_indexes=False)

    def write_epochs(self) -> None:
        if self._epochs.dirty:
            self._epochs.write(self._segments.disk, self._path(leader_epochs.FILE_NAME))

    def _path(self, name: str) -> str:
        return os.path.join(self._segments.directory, name)

    def _sync_segment(self, segment: Segment, *, with_indexes: bool) -> bool:
        try:
            segment.sync(with_indexes=with_indexes)
        except FileNotFoundError:
            if segment in self._segments:
                raise
            return False  # retention has removed it
        return True

    def _sync_snapshot(self, offset: int) -> None:
        if offset in self._producers.snapshots:
            try:
                self._sync_file(snapshot_path(self._segments.directory, offset))
            except FileNotFoundError:
                return

    def _sync_new_folder(self) -> None:
        """Sync the folder of a new partition, its name in the log dir and its topic id."""
        directory = self._segments.directory
        if self._has_topic_id:
            self._sync_file(self._path(partition_metadata.FILE_NAME))
        self._segments.disk.sync_dir(directory)
        self._segments.disk.sync_dir(os.path.dirname(directory))
        self._is_new_folder = False

    def _sync_file(self, path: str) -> None:
        file = self._segments.disk.open(path)
        try:
            file.sync()
        finally:
            file.close()
