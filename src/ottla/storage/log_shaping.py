"""Which segments a log consists of: rolling, truncation, retention, removal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.header import (
    LEADER_EPOCH_POSITION,
)
from ottla.storage import retention
from ottla.storage.batch_scan import scan
from ottla.storage.errors import (
    CorruptFile,
    LogFailed,
    OffsetOutOfRange,
)
from ottla.storage.log_flushing import FlushableLog
from ottla.storage.log_state import PendingDeletion
from ottla.storage.names import (
    DELETED_SUFFIX,
)
from ottla.storage.producer_state import snapshot_path
from ottla.storage.replacement import Replacement, check_replaceable
from ottla.storage.segment import Segment

logger = logging.getLogger("ottla.storage.log")

_AFTER_EPOCH = LEADER_EPOCH_POSITION + 4


class ShapedLog(FlushableLog):
    __slots__ = ()

    # Rolling

    def roll(self) -> None:
        """Begin a new segment at the end, unless the active one is still empty."""
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        try:
            if self._active.size:
                self._roll_to(self.end_offset)
        except OSError as error:
            self._fail(error)

    def _roll_before(self, size: int, base_offset: int) -> Segment:
        """The segment for a batch of `size` bytes at `base_offset`."""
        if size > self.config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes does not fit into a segment of "
                f"{self.config.segment_bytes} (segment.bytes)",
            )
        if self._active.size == 0:
            self._replace_empty_active(base_offset)
        else:
            self._roll_to(base_offset)
        return self._active

    def _replace_empty_active(self, base_offset: int) -> None:
        """An empty segment that cannot take a batch: its base offset is too low, or it has no room
        for index entries because `segment.index.bytes` was changed."""
        old = self._segments.pop()
        if old.base_offset != base_offset:
            self._delete_segments([old])
        self._add_segment(base_offset)

    def _roll_to(self, base_offset: int) -> None:
        self._active.seal(preallocated=self.config.preallocate)
        if self.config.compact:
            # Power loss may take the end of one segment and leave the next. Elsewhere that is seen
            # by the offsets that are missing; here compaction may have taken them.
            self._active.sync(with_indexes=False)
        self.producers.end_offset = base_offset
        self.producers.take_snapshot(self._disk, self.directory)
        self._add_segment(base_offset)
        logger.debug("Rolled %s at offset %d", self.directory, base_offset)
        if self.on_roll is not None:
            self.on_roll(self)

    def skip_to(self, offset: int) -> None:
        """Go on at `offset`, with nothing before it: compaction left nothing there to copy."""
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        try:
            if self._active.size:
                self._roll_to(offset)
            else:
                self._replace_empty_active(offset)
        except OSError as error:
            self._fail(error)
        self.end_offset = self.producers.end_offset = offset

    # Cutting and deleting

    def truncate_to(self, offset: int) -> bool:
        """Remove everything from `offset` on; was there anything?

        A batch that holds `offset` goes as a whole, and the log then ends where that batch began.
        """
        if offset < 0:
            raise ValueError(f"cannot truncate {self.directory} to offset {offset}")
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        if offset >= self.end_offset:
            self.epochs.truncate_from_end(self.end_offset)
            self._epoch = self.epochs.latest
            return False
        logger.info("Truncating %s from %d to offset %d", self.directory, self.end_offset, offset)
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        try:
            self._truncate(offset)
        except OSError as error:
            self._fail(error)
        return True

    def _truncate(self, offset: int) -> None:
        self._settle_replacement()
        self._recent.clear()
        kept = self._segment_index(offset)
        dropped = self._segments[kept + 1 :]
        self._segments = self._segments[: kept + 1]
        self._active = self._segments[-1]
        # From the end backwards, and each step durable before the next, so that a crash at any
        # point leaves a beginning of the log.
        if dropped:
            self._delete_segments(dropped[::-1])
            self._disk.sync_dir(self.directory)
        self.end_offset = min(offset, self._active.truncate_to(offset))
        self._new_generation()
        self.log_start_offset = min(self.log_start_offset, self.end_offset)
        self.epochs.truncate_from_end(self.end_offset)
        self._epoch = self.epochs.latest
        self._rebuild_producers()
        if self.on_truncate is not None:
            self.on_truncate(self)

    def _new_generation(self) -> None:
        """No flush that began before this moment may move the recovery point any more."""
        self._truncated_point = min(self.recovery_point, self.end_offset)
        self._generation += 1
        self._flushed = (self._generation, self._truncated_point)

    def _rebuild_producers(self) -> None:
        """The state at the new end: the last snapshot that is left, and the batches after it."""
        state = self.producers
        for offset in [kept for kept in state.snapshots if kept > self.end_offset]:
            state.remove_snapshot(self._disk, self.directory, offset)
        if not state.producers:
            state.clear(self.end_offset)
            return
        for offset in reversed(state.snapshots):
            try:
                state.load_snapshot(self._disk, self.directory, offset)
                break
            except (CorruptFile, FileNotFoundError):
                state.remove_snapshot(self._disk, self.directory, offset)
        else:
            state.clear(self.log_start_offset)
        from_offset = state.end_offset
        for segment in self._segments[self._segment_index(from_offset) :]:
            for position, header in scan(segment.file, 0, segment.size):
                if header[9] >= 0 and header[0] >= from_offset:
                    completed = state.update(header, segment.read_batch(position, header))
                    if completed is not None:
                        state.complete(completed)
        state.end_offset = self.end_offset

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drop everything; the next append gets `offset`."""
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        try:
            self._settle_replacement()
            dropped, self._segments = self._segments, []
            self._delete_segments(dropped[::-1])
            self._add_segment(offset)
            self.end_offset = offset
            self.log_start_offset = offset if log_start_offset is None else log_start_offset
            self._new_generation()
            self.epochs.clear()
            self._epoch = self.epochs.latest
            for snapshot in list(self.producers.snapshots):
                self.producers.remove_snapshot(self._disk, self.directory, snapshot)
            self.producers.clear(offset)
        except OSError as error:
            self._fail(error)
        if self.on_truncate is not None:
            self.on_truncate(self)

    def increment_log_start_offset(self, offset: int) -> bool:
        """Make the log begin at `offset` (DeleteRecords, retention); did it begin earlier?

        The caller has compared `offset` with the high watermark. The data folder's checkpoint of
        start offsets makes it last; whole segments below it go with the next retention check.
        """
        if offset <= self.log_start_offset:
            return False
        if offset > self.end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.end_offset)
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.advance_start(offset)
        return True

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Retention; how many segments went. None while a compacted one is put in place."""
        if self.failure is not None or self._replacement is not None:
            return 0
        try:
            count = self._delete_front(
                retention.before_offset(self.log_start_offset), high_watermark
            )
            if self.config.delete:
                by_size = retention.beyond_size(self._segments, self.config.retention_bytes)
                count += self._delete_front(by_size, high_watermark)
                by_age = retention.beyond_age(now_ms, self.config.retention_ms)
                count += self._delete_front(by_age, high_watermark)
        except OSError as error:
            self._fail(error)
        return count

    def _delete_front(
        self, is_expired: Callable[[Segment, Segment | None], bool], high_watermark: int
    ) -> int:
        count = retention.count_deletable(
            self._segments, self.end_offset, high_watermark, is_expired
        )
        if not count:
            return 0
        if count == len(self._segments):
            # There must always be an active segment, and it must not be the one that goes.
            self._roll_to(self.end_offset)
        dropped, self._segments = self._segments[:count], self._segments[count:]
        self.increment_log_start_offset(self._segments[0].base_offset)
        logger.info(
            "Deleting %d segments of %s, which now begins at offset %d",
            count,
            self.directory,
            self.log_start_offset,
        )
        self._delete_segments(dropped)
        return count

    def replace_segments(
        self, cleaned: Segment, replaced: Sequence[Segment], generation: int
    ) -> Replacement:
        """Begin to put a compacted segment in the place of those it was made from.

        `generation` is that of the log when the work began: what was cut since must not come back.
        """
        check_replaceable(self, replaced, generation)
        self._replacement = Replacement(self, cleaned, replaced)
        return self._replacement

    def _settle_replacement(self) -> None:
        if self._replacement is not None:
            self._replacement.settle()

    def _delete_segments(self, segments: list[Segment]) -> None:
        """Rename the files out of the way now, in the order given; they are removed after
        `file.delete.delay.ms`."""
        if not segments:
            return
        paths = []
        for segment in segments:
            paths += segment.mark_deleted()
            if segment.base_offset in self.producers.snapshots:
                self.producers.snapshots.remove(segment.base_offset)
                snapshot = snapshot_path(self.directory, segment.base_offset)
                try:
                    self._disk.rename(snapshot, snapshot + DELETED_SUFFIX)
                    paths.append(snapshot + DELETED_SUFFIX)
                except FileNotFoundError:
                    pass
        self._has_removed_names = True
        self._remove_later(paths)

    def _remove_later(self, paths: list[str]) -> None:
        due_ms = self._clock.wall_ms() + self.config.file_delete_delay_ms
        self.pending_deletions.append(PendingDeletion(due_ms, paths))

    def remove_files(self, now_ms: int) -> int:
        """Remove deleted files whose delay is over; how many. May run in a thread."""
        due = [pending for pending in self.pending_deletions if pending.due_ms <= now_ms]
        for pending in due:
            self.pending_deletions.remove(pending)
            for path in pending.paths:
                try:
                    self._disk.remove(path)
                except FileNotFoundError:
                    pass
        return sum(len(pending.paths) for pending in due)
