"""Loads a log from the files in its folder.

After a clean shutdown everything on disk is known to be complete, and little is read. After a
crash, all segments from the recovery point on are read batch by batch: the first invalid batch ends
the log, and indexes and producer state are rebuilt. Missing or damaged side files are rebuilt at
any time. Every truncation and every rebuilt file is logged.
"""

from __future__ import annotations

import os.path
from typing import NamedTuple

from ottla.broker.storage import leader_epochs
from ottla.broker.storage.errors import CorruptFile, CorruptLog, UnsupportedFormat
from ottla.broker.storage.leader_epochs import LeaderEpochs
from ottla.broker.storage.missing_offsets import tell_missing
from ottla.broker.storage.names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_in_name,
    offset_name,
)
from ottla.broker.storage.producers.state import ProducerState
from ottla.broker.storage.producers.tail import remember_tail
from ottla.broker.storage.segments.batch_scan import (
    BrokenBatch,
    HeaderFields,
    LegacyBatch,
    scan,
    verify,
)
from ottla.broker.storage.segments.mapped_index import RELATIVE_OFFSET_MAX
from ottla.broker.storage.segments.segment import Segment
from ottla.broker.storage.swap_files import finish_interrupted_swaps
from ottla.config.topic import TopicConfig
from ottla.logs import get_logger
from ottla.records.header import LOG_OVERHEAD
from ottla.records.header_fields import (
    BASE_OFFSET,
    BATCH_LENGTH,
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    PARTITION_LEADER_EPOCH,
    PRODUCER_ID,
)
from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk

logger = get_logger("ottla.storage.recovery")


class LoadedLog(NamedTuple):
    segments: list[Segment]
    log_start_offset: int
    end_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: ProducerState
    dropped_paths: list[str]
    """Files of segments after a damaged one, renamed and still to be removed."""


class LogLoader:
    """Loads one log. `load` may run in a thread: nothing else uses the log yet."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: TopicConfig,
        clock: Clock,
        *,
        recovery_point: int,
        log_start_offset: int,
        clean: bool,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._clock = clock
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._clean = clean
        self._names: set[str] = set()
        self._segments: list[Segment] = []
        self._dropped_paths: list[str] = []
        self._cut_bases: set[int] = set()
        """Base offsets of segments that are shorter than their offset index says."""
        self._epochs = LeaderEpochs()
        self._epoch_checked = self._epoch_checked_until = -1
        self._producers = ProducerState()

    def load(self, names: list[str]) -> LoadedLog:
        """Load the log, given the `names` of the files in the folder."""
        names = finish_interrupted_swaps(self._disk, self._directory, names)
        self._names = set(names)
        self._open_segments(names)
        self._producers.snapshots = self._find_snapshots(names)
        self._read_epochs()
        end_offset = self._clean_end_offset() if self._clean else None
        recovered = end_offset is None and bool(self._segments)
        if recovered:
            end_offset = self._recover()
        end_offset = self._start_if_nothing_is_left(end_offset)
        start_offset = max(self._log_start_offset, self._segments[0].base_offset)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(start_offset)
        if not recovered:
            self._load_producers(start_offset, end_offset)
        self._remove_false_snapshots(start_offset, end_offset)
        whole = self._clean and not recovered
        return LoadedLog(
            self._segments,
            start_offset,
            end_offset,
            end_offset if whole else min(self._recovery_point, end_offset),
            self._epochs,
            self._producers,
            self._dropped_paths,
        )

    # Files

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _open_segments(self, names: list[str]) -> None:
        now_ms = self._clock.wall_ms()
        bases = [base for name in names if (base := offset_in_name(name, LOG_SUFFIX)) is not None]
        for base_offset in sorted(bases):
            segment = Segment(
                self._disk,
                self._directory,
                base_offset,
                self._config,
                size=self._disk.size(self._path(offset_name(base_offset, LOG_SUFFIX))),
                created_ms=now_ms,
                has_transaction_index=offset_name(base_offset, TRANSACTION_INDEX_SUFFIX)
                in self._names,
            )
            self._segments.append(segment)
        self._remove_orphans(names, set(bases))

    def _remove_orphans(self, names: list[str], bases: set[int]) -> None:
        for name in names:
            for suffix in INDEX_SUFFIXES:
                offset = offset_in_name(name, suffix)
                if offset is not None and offset not in bases:
                    logger.warning("Removing index %s: it has no segment", self._path(name))
                    self._disk.remove(self._path(name))

    def _find_snapshots(self, names: list[str]) -> list[int]:
        offsets = (offset_in_name(name, SNAPSHOT_SUFFIX) for name in names)
        return sorted(offset for offset in offsets if offset is not None)

    def _read_epochs(self) -> None:
        path = self._path(leader_epochs.FILE_NAME)
        try:
            if leader_epochs.FILE_NAME in self._names:
                self._epochs = LeaderEpochs.read(self._disk, path)
                return
            reason = "it is missing"
        except CorruptFile as error:
            reason = error.reason
        trusted = self._segments if self._clean else self._segments[: self._first_suspect()]
        if not any(segment.size for segment in trusted):
            return  # nothing was ever flushed: recovery reads the epochs with the batches
        logger.warning("Rebuilding %s from the log: %s", path, reason)
        try:
            for segment in trusted:
                end_offset = segment.base_offset
                for _, header in scan(segment.files.file, 0, segment.size):
                    self._note_epoch(header, end_offset)
                    end_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
        except BrokenBatch:
            # Only the part before a damaged batch is used; recovery reads the rest.
            pass
        self._epochs.dirty = True

    def _note_epoch(self, header: HeaderFields, since: int) -> None:
        """Correct the epochs by a batch: an entry that contradicts it is left over from before a
        truncation. The batch before ends at `since`."""
        base_offset, epoch = header[BASE_OFFSET], header[PARTITION_LEADER_EPOCH]
        if epoch == self._epoch_checked and base_offset < self._epoch_checked_until:
            return
        if epoch >= 0:
            self._epochs.confirm(epoch, base_offset, min(since, base_offset))
            self._epoch_checked = epoch
            self._epoch_checked_until = self._epochs.next_start_after(base_offset)

    def _check_indexes(self, segment: Segment) -> None:
        """Rebuild indexes that are missing or implausible. The log file is assumed to be
        complete."""
        try:
            for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                name = offset_name(segment.base_offset, suffix)
                if name not in self._names:
                    raise CorruptFile(self._path(name), "it is missing")
            self._note_if_cut(segment)
            segment.offset_index.check(segment.size)
            segment.time_index.check()
            if segment.transaction_index.exists:
                segment.transaction_index.check()
        except CorruptFile as error:
            logger.warning("Rebuilding the indexes of %s: %s", segment.files.path, error)
            segment.rebuild_indexes()

    def _note_if_cut(self, segment: Segment) -> None:
        last = segment.offset_index.read_last()
        if last is not None and last[0] > 0 and segment.size <= last[1]:
            self._cut_bases.add(segment.base_offset)

    def _tell_missing(self, segments: list[Segment]) -> None:
        tell_missing(segments, self._cut_bases, is_compacted=self._config.compact)

    # A clean start

    def _clean_end_offset(self) -> int | None:
        """Return the log end; `None` if the log is damaged despite the clean shutdown."""
        if not self._segments:
            return None
        for segment in self._segments:
            self._check_indexes(segment)
        self._tell_missing(self._segments)
        return self._end_of_last_segment()

    def _end_of_last_segment(self) -> int | None:
        last = self._segments[-1]
        try:
            return last.next_offset()
        except (CorruptFile, BrokenBatch) as error:
            logger.warning(
                "Recovering %s, which is damaged although the broker was stopped cleanly: %s",
                last.files.path,
                error,
            )
            self._recovery_point = last.base_offset
            return None
        finally:
            last.files.release()

    def _start_if_nothing_is_left(self, end_offset: int | None) -> int:
        if end_offset is not None and end_offset < self._log_start_offset:
            logger.warning(
                "Log %s ends at %d, before its start offset %d: dropping all of it",
                self._directory,
                end_offset,
                self._log_start_offset,
            )
            self._drop(self._segments)
            self._segments = []
            self._epochs.clear()
            self._producers.clear(self._log_start_offset)
        if self._segments and end_offset is not None:
            return end_offset
        start = self._log_start_offset
        self._segments = [
            Segment.create(self._disk, self._directory, start, self._config, self._clock.wall_ms())
        ]
        return start

    # After a crash

    def _recover(self) -> int:
        """Read everything from the recovery point on; return the log end."""
        first = self._first_suspect()
        for segment in self._segments[:first]:
            self._check_indexes(segment)
        self._tell_missing(self._segments[: first + 1])
        suspect = self._segments[first:]
        self._load_producers(self._log_start_offset, suspect[0].base_offset)
        end_offset = suspect[0].base_offset
        for index, segment in enumerate(suspect):
            if index and self._is_hole(end_offset, segment):
                self._drop_after(first + index - 1, end_offset)
                break
            self._producers.end_offset = max(segment.base_offset, end_offset)
            self._producers.take_snapshot(self._disk, self._directory)
            end_offset, whole_bytes = self._recover_segment(segment)
            if whole_bytes < segment.size and suspect[index + 1 :]:
                # Drop them before the truncation, or a crash between the two would leave a hole.
                self._drop_after(first + index, end_offset)
            self._cut(segment, whole_bytes)
            if segment is self._segments[-1]:
                break
        self._producers.end_offset = end_offset
        self._producers.take_snapshot(self._disk, self._directory)
        # The previous process may have died while truncating, so the truncation may not be durable.
        self._segments[-1].is_cut = True
        return end_offset

    def _is_hole(self, end_offset: int, segment: Segment) -> bool:
        """True if offsets are missing before the segment. A power failure can take the end of one
        segment and leave the next one complete.

        Only compaction makes such gaps on purpose. Data after a hole was never flushed, and to
        continue without the missing part would reorder history.
        """
        if self._config.compact or segment.base_offset == end_offset:
            return False
        logger.warning(
            "Offsets %d to %d of %s are lost: nothing after them can be kept",
            end_offset,
            segment.base_offset - 1,
            self._directory,
        )
        return True

    def _first_suspect(self) -> int:
        """Return the index of the segment that contains the recovery point."""
        before = [s for s in self._segments if s.base_offset <= self._recovery_point]
        return max(0, len(before) - 1)

    def _recover_segment(self, segment: Segment) -> tuple[int, int]:
        """Recover a segment; return (offset after its last whole batch, size up to there)."""
        segment.offset_index.forget()
        segment.time_index.forget()
        segment.offset_index.create()
        segment.time_index.create()
        segment.transaction_index.reset()
        segment.reset_notes()
        whole_bytes, end_offset = 0, segment.base_offset
        epoch = self._epochs.epoch_of_offset(end_offset - 1)
        try:
            for position, header, batch in verify(segment.files.file, segment.size):
                last_offset = _checked_last_offset(segment, position, header, end_offset)
                if 0 <= header[PARTITION_LEADER_EPOCH] < epoch:
                    raise BrokenBatch(
                        position, f"leader epoch {header[PARTITION_LEADER_EPOCH]} after {epoch}"
                    )
                epoch = header[PARTITION_LEADER_EPOCH]
                size = LOG_OVERHEAD + header[BATCH_LENGTH]
                segment.note(position, size, last_offset, header[MAX_TIMESTAMP])
                self._note_epoch(header, end_offset)
                if header[PRODUCER_ID] >= 0:
                    self._note_producer(segment, header, batch)
                whole_bytes, end_offset = position + size, last_offset + 1
        except LegacyBatch as broken:
            raise UnsupportedFormat(
                segment.files.path,
                f"byte {broken.position} begins {broken.reason}; only format 2 is read. "
                "Let Kafka rewrite the topic, or move the folder away",
            ) from None
        except BrokenBatch as broken:
            logger.warning(
                "Cut %d bytes off the end of %s, which now ends at offset %d: %s",
                segment.size - whole_bytes,
                segment.files.path,
                end_offset,
                broken,
            )
        return end_offset, whole_bytes

    def _cut(self, segment: Segment, whole_bytes: int) -> None:
        segment.truncate_bytes(whole_bytes)
        segment.finish_indexes()
        if segment.is_cut:
            # Otherwise a power failure could bring the truncated bytes back, in the middle of new
            # data.
            segment.sync(with_indexes=False)

    def _drop_after(self, index: int, end_offset: int) -> None:
        dropped = self._segments[index + 1 :]
        del self._segments[index + 1 :]
        logger.warning(
            "Dropping %d segments of %s from offset %d on: the log now ends at %d",
            len(dropped),
            self._directory,
            dropped[0].base_offset,
            end_offset,
        )
        self._drop(dropped)

    def _drop(self, segments: list[Segment]) -> None:
        """Delete backwards and durably, so that a crash meanwhile leaves a prefix of the log."""
        for segment in reversed(segments):
            self._dropped_paths += segment.files.mark_deleted()
        self._disk.sync_dir(self._directory)

    # Producers

    def _load_producers(self, start_offset: int, upto_offset: int) -> None:
        """Restore the state at `upto_offset`: the best snapshot, and the batches after it."""
        state = self._producers
        usable = [offset for offset in state.snapshots if start_offset < offset <= upto_offset]
        while usable:
            offset = usable.pop()
            try:
                state.load_snapshot(self._disk, self._directory, offset)
                remember_tail(state, self._segments, self._clock.wall_ms())
                break
            except (CorruptFile, FileNotFoundError) as error:
                logger.warning("Removing a producer snapshot: %s", error)
                state.remove_snapshot(self._disk, self._directory, offset)
        else:
            state.clear(start_offset)
        for segment, following in zip(self._segments, [*self._segments[1:], None], strict=True):
            if following is not None and following.base_offset <= state.end_offset:
                continue
            if segment.base_offset < upto_offset and state.end_offset < upto_offset:
                self._scan_producers(segment, upto_offset)
        state.end_offset = upto_offset

    def _scan_producers(self, segment: Segment, upto_offset: int) -> None:
        state = self._producers
        try:
            found = segment.locate(state.end_offset)
            if found is not None:
                self._scan_producers_from(segment, found[0], upto_offset)
        except (BrokenBatch, CorruptLog) as broken:
            logger.error("Producers in %s are unknown: %s", segment.files.path, broken)

    def _scan_producers_from(self, segment: Segment, start: int, upto_offset: int) -> None:
        state = self._producers
        for position, header in scan(segment.files.file, start, segment.size):
            if header[BASE_OFFSET] >= upto_offset:
                return
            if header[PRODUCER_ID] >= 0 and header[BASE_OFFSET] >= state.end_offset:
                self._note_producer(
                    segment, header, segment.read_batch(position, header), sound_index=True
                )

    def _note_producer(
        self,
        segment: Segment,
        header: HeaderFields,
        batch: bytes | memoryview,
        *,
        sound_index: bool = False,
    ) -> None:
        """`sound_index`: the segment's transaction index is valid and need not be rebuilt."""
        aborted = self._producers.apply(header, batch)
        if aborted is not None and not sound_index:
            segment.note_aborted(aborted)

    def _remove_false_snapshots(self, start_offset: int, end_offset: int) -> None:
        """Remove snapshots of offsets that are gone, and those that are not at a segment's base
        offset.

        A snapshot above the last segment's base offset is kept: a clean shutdown wrote it.
        """
        bases = {segment.base_offset for segment in self._segments}
        last_base = self._segments[-1].base_offset
        for offset in list(self._producers.snapshots):
            if (
                offset > end_offset
                or offset <= start_offset
                or (offset < last_base and offset not in bases)
            ):
                self._producers.remove_snapshot(self._disk, self._directory, offset)


def _checked_last_offset(
    segment: Segment, position: int, header: HeaderFields, expected_offset: int
) -> int:
    """Return the last offset of a batch; raise `BrokenBatch` if it cannot follow
    `expected_offset`."""
    last_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
    if (
        header[BASE_OFFSET] < expected_offset
        or header[LAST_OFFSET_DELTA] < 0
        or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
    ):
        raise BrokenBatch(
            position,
            f"offsets {header[BASE_OFFSET]} to {last_offset} cannot follow {expected_offset}",
        )
    return last_offset
