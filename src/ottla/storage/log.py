"""One partition's log: segments in a row, the last one active.

All methods are synchronous and belong to the event loop's thread, with these exceptions that are
meant to be run in a thread beside it: `Log.open`, `flush`, `remove_files`, and `close` once nobody
uses the log any more.

What is on disk after power loss: everything below `recovery_point` for sure, for `flush` has synced
the batches, the names of new files and the leader epochs before it moves the point. Above it,
whatever the file system kept: recovery takes the whole batches and cuts the rest. After the death
of the process alone nothing is lost, since every append is a write to the page cache.

Slices: `read` gives a range of an open file. A segment that is deleted lives on, unlinked, for as
long as a slice holds its file. `truncate_to` takes bytes away under a slice being sent, which then
comes out short: a follower that truncates serves no consumers of those bytes.
"""

from __future__ import annotations

import logging
import os.path
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from ottla.buffers import Buffer
from ottla.config.topic import TopicConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.header import (
    LEADER_EPOCH_POSITION,
    LOG_OVERHEAD,
    BatchHeader,
    batches,
    place_prefix,
    set_place,
)
from ottla.records.reader import read_records
from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk, FileSlice
from ottla.storage import leader_epochs, partition_metadata, retention
from ottla.storage.batch_scan import scan
from ottla.storage.errors import (
    CorruptFile,
    LogDirFailure,
    LogFailed,
    OffsetOutOfRange,
    UnexpectedOffset,
)
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.names import (
    DELETE_DIR_SUFFIX,
    DELETED_SUFFIX,
    STRAY_DIR_SUFFIX,
    retired_dir_name,
)
from ottla.storage.producer_state import ProducerState, snapshot_path
from ottla.storage.recent_batches import RecentBatches
from ottla.storage.recovery import LoadedLog, LogLoader
from ottla.storage.segment import Segment
from ottla.storage.transaction_index import AbortedTransaction
from ottla.storage.turn import Turn

logger = logging.getLogger("ottla.storage.log")

_AFTER_EPOCH = LEADER_EPOCH_POSITION + 4


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    log_start_offset: int


class PendingDeletion(NamedTuple):
    """Files that were renamed and wait for their removal."""

    due_ms: int
    paths: list[str]


class LogSlice(FileSlice):
    """Whole batches of a log, except perhaps the last one, which a size limit may have cut."""

    __slots__ = ("reaches_limit",)

    def __init__(self, segment: Segment, position: int, count: int, reaches_limit: bool) -> None:
        super().__init__(segment.file, position, count)
        self.reaches_limit = reaches_limit
        """Nothing more could be read now: the slice ends where the reader's limit is."""


class Log:
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
        self._flush_turn = Turn()
        self._flushed = (0, loaded.recovery_point)
        self._truncated_point = loaded.recovery_point
        self._identity_synced = True
        # Segments cut off the end must not come back after power loss beside their successors.
        self._has_removed_names = False
        self.last_flush_ms = clock.wall_ms()
        self.failure: str | None = None
        self.pending_deletions: list[PendingDeletion] = []
        self.on_roll: Callable[[Log], None] | None = None
        """Called when a segment was rolled: it is time to flush the one before, in a thread."""
        self.on_truncate: Callable[[Log], None] | None = None
        """Called when the recovery point went back: the checkpoint on disk must follow."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        topic: str,
        partition: int,
        config: TopicConfig,
        clock: Clock,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean: bool,
        topic_id: bytes | None = None,
    ) -> Log:
        """Load the log in `directory`, or begin one there. May be run in a thread.

        `clean`: the last user of the folder closed it properly, so nothing needs recovery. If not,
        `settle` should follow when there is time.
        """
        try:
            try:
                names = disk.list_dir(directory)
            except FileNotFoundError:
                disk.make_dirs(directory)
                names = []
            topic_id = _settle_topic_id(disk, directory, names, topic_id)
            loader = LogLoader(
                disk,
                directory,
                config,
                clock,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                clean=clean,
            )
            loaded = loader.load(names)
            log = cls(disk, directory, topic, partition, config, clock, loaded, topic_id)
            log._identity_synced = bool(names) and clean
            if loaded.dropped_paths:
                log._remove_later(loaded.dropped_paths)
        except OSError as error:
            raise LogDirFailure(os.path.dirname(directory), error) from error
        return log

    # What it is

    @property
    def recovery_point(self) -> int:
        """All below is safely on disk."""
        generation, offset = self._flushed
        return offset if generation == self._generation else self._truncated_point

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

    # Appending

    def append(
        self, batch: Buffer, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> Appended:
        """Give a validated batch the next offsets and write it.

        `header` is that of `batch` but for base offset and leader epoch, which are set here: in
        place if the buffer is writable. Raises `LogDirFailure` with nothing of the batch visible.
        """
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        base_offset = self.end_offset
        length = header[1]
        size = LOG_OVERHEAD + length
        last_offset = base_offset + header[6]
        max_timestamp = header[8]
        buffers: tuple[Buffer, ...]
        if isinstance(batch, bytes) or (isinstance(batch, memoryview) and batch.readonly):
            prefix = place_prefix(length, base_offset, leader_epoch)
            buffers = (prefix, memoryview(batch)[_AFTER_EPOCH:])
        else:
            set_place(batch, length, base_offset, leader_epoch)
            buffers = (batch,)
        try:
            segment = self._active
            if segment.should_roll(self.config, size, last_offset, max_timestamp, now_ms):
                segment = self._roll_before(size, base_offset)
            if leader_epoch != self._epoch:
                self._begin_epoch(leader_epoch, base_offset)
            position = segment.write(buffers, size)
            segment.note(position, size, last_offset, max_timestamp)
            self._recent.add(base_offset, position, size)
            self.end_offset = last_offset + 1
            if header[9] >= 0:
                placed = (base_offset, length, leader_epoch, *header[3:])
                self._note_producer(segment, placed, batch)
            self.producers.end_offset = last_offset + 1
        except OSError as error:
            self._fail(error)
        return Appended(base_offset, last_offset, self.log_start_offset)

    def append_at(self, data: Buffer, now_ms: int) -> Appended | None:
        """Append whole batches that already have their offsets and epochs, as a follower does.

        They may leave gaps (compaction does) but not go back: `UnexpectedOffset`. A cut batch at
        the end is left out. `None` if there was no whole batch.
        """
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        found = list(batches(data))
        if not found:
            return None
        expected = self.end_offset
        for header, _ in found:
            if header.base_offset < expected:
                raise UnexpectedOffset(header.base_offset, expected)
            expected = header.next_offset
        try:
            self._append_run(found, now_ms)
        except OSError as error:
            self._fail(error)
        return Appended(found[0][0].base_offset, self.end_offset - 1, self.log_start_offset)

    def _append_run(self, found: list[tuple[BatchHeader, memoryview]], now_ms: int) -> None:
        """One write for each stretch of batches that goes to the same segment."""
        segment = self._active
        waiting: list[tuple[BatchHeader, memoryview]] = []
        waiting_bytes = 0
        for header, batch in found:
            if segment.should_roll(
                self.config,
                waiting_bytes + header.size,
                header.last_offset,
                header.max_timestamp,
                now_ms,
            ):
                self._write_run(segment, waiting)
                waiting, waiting_bytes = [], 0
                segment = self._roll_before(header.size, header.base_offset)
            waiting.append((header, batch))
            waiting_bytes += header.size
        self._write_run(segment, waiting)

    def _write_run(self, segment: Segment, run: list[tuple[BatchHeader, memoryview]]) -> None:
        if not run:
            return
        position = segment.write([batch for _, batch in run], sum(len(batch) for _, batch in run))
        for header, batch in run:
            if header.partition_leader_epoch > self._epoch:
                self._begin_epoch(header.partition_leader_epoch, header.base_offset)
            segment.note(position, header.size, header.last_offset, header.max_timestamp)
            self._recent.add(header.base_offset, position, header.size)
            self.end_offset = header.next_offset
            if header.producer_id >= 0:
                self._note_producer(segment, tuple(header), batch)
            self.producers.end_offset = self.end_offset
            position += header.size

    def _begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        if leader_epoch >= 0:
            self.epochs.assign(leader_epoch, start_offset)
            self._epoch = self.epochs.latest

    def _note_producer(self, segment: Segment, header: tuple[int, ...], batch: Buffer) -> None:
        completed = self.producers.update(header, batch)  # type: ignore[arg-type]
        if completed is None:
            return
        if completed.aborted:
            stable_offset = self.producers.stable_offset_after(completed)
            segment.transaction_index.append(AbortedTransaction(*completed[:3], stable_offset))
            segment.indexes_synced = False
        self.producers.complete(completed)

    def assign_epoch(self, leader_epoch: int) -> None:
        """A leader begins: whatever it appends comes from `end_offset` on."""
        if leader_epoch > self._epoch:
            self._begin_epoch(leader_epoch, self.end_offset)

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
        self.producers.end_offset = base_offset
        self.producers.take_snapshot(self._disk, self.directory)
        self._add_segment(base_offset)
        logger.debug("Rolled %s at offset %d", self.directory, base_offset)
        if self.on_roll is not None:
            self.on_roll(self)

    def _add_segment(self, base_offset: int) -> None:
        segment = Segment.create(
            self._disk, self.directory, base_offset, self.config, self._clock.wall_ms()
        )
        # A new list, so that a flush in a thread keeps the one it began with.
        self._segments = [*self._segments, segment]
        self._active = segment
        self._recent.clear()

    # Reading

    def read(
        self, offset: int, max_bytes: int, limit_offset: int, *, min_one: bool = True
    ) -> LogSlice | None:
        """Batches from the one with `offset` on, below `limit_offset`, about `max_bytes` of them.

        `min_one`: the first batch comes whole even if it is larger. The slice lies in one segment,
        and its last batch may be cut: readers know. `None` where there is nothing to give.
        """
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.end_offset)
        limit_offset = min(limit_offset, self.end_offset)
        if offset >= limit_offset:
            return None
        try:
            segment = self._active
            if offset >= segment.base_offset:
                return self._read_active(segment, offset, max_bytes, limit_offset, min_one)
            return self._read_older(offset, max_bytes, limit_offset, min_one)
        except OSError as error:
            self._fail(error)

    def _read_active(
        self, segment: Segment, offset: int, max_bytes: int, limit_offset: int, min_one: bool
    ) -> LogSlice | None:
        recent = self._recent.get(offset)
        if recent is not None:
            start, first_size = recent
        else:
            found = segment.locate(offset)
            if found is None or found[1][0] >= limit_offset:
                return None
            start, first_size = found[0], LOG_OVERHEAD + found[1][1]
        end = segment.size
        if limit_offset != self.end_offset:
            end = self._limit_position(segment, limit_offset)
        return _slice(segment, start, end, first_size, max_bytes, min_one, reaches_end=True)

    def _read_older(
        self, offset: int, max_bytes: int, limit_offset: int, min_one: bool
    ) -> LogSlice | None:
        """From the segment of `offset`, or the next that has batches: compaction leaves gaps."""
        segments = self._segments
        for index in range(self._segment_index(offset), len(segments) - 1):
            segment, following = segments[index], segments[index + 1]
            found = segment.locate(offset)
            if found is None:
                continue
            if found[1][0] >= limit_offset:
                return None
            end, reaches_end = segment.size, limit_offset <= following.base_offset
            if limit_offset < following.base_offset:
                end = self._limit_position(segment, limit_offset)
            first_size = LOG_OVERHEAD + found[1][1]
            return _slice(segment, found[0], end, first_size, max_bytes, min_one, reaches_end)
        return self._read_active(segments[-1], offset, max_bytes, limit_offset, min_one)

    def _limit_position(self, segment: Segment, limit_offset: int) -> int:
        """Where the batch with `limit_offset` begins."""
        recent = self._recent.get(limit_offset) if segment is self._active else None
        if recent is not None:
            return recent[0]
        found = segment.locate(limit_offset)
        return segment.size if found is None else found[0]

    def _segment_index(self, offset: int) -> int:
        """The last segment that does not begin after `offset`."""
        return max(0, bisect_right(self._segments, offset, key=_base_offset_of) - 1)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record that is not older."""
        try:
            for segment in self._segments:
                if segment.size and segment.max_timestamp >= timestamp:
                    found = segment.find_timestamp(timestamp, self.log_start_offset)
                    if found is not None:
                        return found
        except OSError as error:
            self._fail(error)
        return None

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the youngest record; of several, the first."""
        try:
            filled = [segment for segment in self._segments if segment.size]
            if not filled:
                return None
            segment = max(filled, key=_max_timestamp_of)
            found = segment.locate(segment.max_timestamp_offset)
            if found is None or segment.max_timestamp < 0:
                return None
            position, header = found
            for record in read_records(segment.read_batch(position, header)):
                if record.timestamp == header[8]:
                    return record.timestamp, record.offset, header[2]
            return None
        except OSError as error:
            self._fail(error)

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Those that a reader of committed data must skip from `offset` to below `upper_offset`."""
        aborted: list[AbortedTransaction] = []
        for segment in self._segments[self._segment_index(offset) :]:
            if segment.transaction_index.exists:
                found, complete = segment.transaction_index.overlapping(offset, upper_offset)
                aborted += found
                if complete:
                    break
        return aborted

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """(greatest epoch not above `epoch`, offset after its last record); (-1, -1) if unknown."""
        return self.epochs.end_offset_for(epoch, self.end_offset)

    # Flushing

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
        new_names = False
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
        elif new_names or self._has_removed_names:
            self._disk.sync_dir(self.directory)
        self._has_removed_names = False

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
        """Retention; how many segments went."""
        if self.failure is not None:
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

    # The end

    def close(self, clean: bool) -> None:
        """Let go of all files. `clean`: leave everything whole and synced, so that the next start
        may trust it."""
        if self.failure is not None:
            self._release()
            return
        if clean:
            try:
                with self._flush_turn:
                    self._close_cleanly()
            except OSError as error:
                self._fail(error)
        self.failure = "closed"
        self._release()

    def _close_cleanly(self) -> None:
        self._active.seal(preallocated=self.config.preallocate)
        has_new_snapshot = self.producers.take_snapshot(self._disk, self.directory, sync=True)
        for segment in self._segments:
            if not segment.indexes_synced:
                segment.sync_indexes()
        self._flush()
        if has_new_snapshot:
            self._disk.sync_dir(self.directory)
        if self.epochs.dirty:
            self.epochs.write(self._disk, self._path(leader_epochs.FILE_NAME))

    def _release(self) -> None:
        for segment in self._segments:
            segment.release()

    def delete(self, unique: str) -> str:
        """Rename the folder out of the way; its new path, for removal after the delay.

        `unique` tells it from other folders of deleted topics of the same name.
        """
        return self._retire(unique, DELETE_DIR_SUFFIX, "deleted")

    def set_aside(self, unique: str) -> str:
        """Like `delete`, under a name that says: nobody knows this partition, look at it."""
        return self._retire(unique, STRAY_DIR_SUFFIX, "set aside")

    def _retire(self, unique: str, suffix: str, reason: str) -> str:
        parent = os.path.dirname(self.directory)
        name = retired_dir_name(self.topic, self.partition, unique, suffix)
        target = os.path.join(parent, name)
        self.failure = reason
        self._generation += 1
        self.pending_deletions.clear()
        try:
            self._disk.rename(self.directory, target)
        except OSError as error:
            raise LogDirFailure(parent, error) from error
        self.directory = target
        for segment in self._segments:
            segment.move(target)
        self._release()
        return target

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)


def _slice(
    segment: Segment,
    start: int,
    end: int,
    first_size: int,
    max_bytes: int,
    min_one: bool,
    reaches_end: bool,
) -> LogSlice | None:
    """`reaches_end`: nothing below the limit lies beyond `end`."""
    if start >= end:
        return None
    count = end - start
    if count <= max_bytes:
        return LogSlice(segment, start, count, reaches_end)
    if first_size > max_bytes:
        return LogSlice(segment, start, first_size, False) if min_one else None
    return LogSlice(segment, start, max_bytes, False)


def _settle_topic_id(
    disk: Disk, directory: str, names: list[str], topic_id: bytes | None
) -> bytes | None:
    """The id in the folder, or else the given one, which is then written there."""
    path = os.path.join(directory, partition_metadata.FILE_NAME)
    if partition_metadata.FILE_NAME in names:
        try:
            found = partition_metadata.read_topic_id(disk, path)
        except CorruptFile as error:
            logger.warning("Replacing a damaged file: %s", error)
        else:
            if topic_id is not None and found != topic_id:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"{directory} belongs to topic id {found.hex()}, not to {topic_id.hex()}",
                )
            return found
    if topic_id is not None:
        partition_metadata.write_topic_id(disk, path, topic_id)
    return topic_id


def _base_offset_of(segment: Segment) -> int:
    return segment.base_offset


def _max_timestamp_of(segment: Segment) -> int:
    return segment.max_timestamp
