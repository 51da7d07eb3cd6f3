"""The log of a partition.

All methods are synchronous and belong to the event loop's thread, with these exceptions, which are
meant to run in another thread: `Log.open`, `flush`, `settle`, `sync_cuts`,
`deleted_files.remove_due`, and `close` once the log is no longer used.

After a power failure, everything below `recovery_point` is certainly on disk: see `flusher.py`.
Above it, recovery keeps the whole batches that the file system preserved and truncates the rest.
After a crash of the process alone nothing is lost, since every append is a write to the page cache.

`read` returns a slice of an open file. A deleted segment lives on, unlinked, for as long as a slice
holds its file. `truncate_to` removes bytes under a slice that is being sent, which then comes out
short: a follower that truncates serves no consumers of those bytes.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from ottla.broker.storage import log_reading, retention
from ottla.broker.storage.deleted_files import DeletedFiles
from ottla.broker.storage.dirs import partition_metadata
from ottla.broker.storage.errors import (
    CorruptFile,
    LogDirFailure,
    LogFailed,
    OffsetOutOfRange,
    UnexpectedOffset,
)
from ottla.broker.storage.flusher import Flusher
from ottla.broker.storage.log_reading import LogSlice, read_active, read_older
from ottla.broker.storage.producers.rebuild import rebuild_producers
from ottla.broker.storage.recovery import LoadedLog, LogLoader
from ottla.broker.storage.segments.segment import Segment
from ottla.broker.storage.segments.segments import Segments
from ottla.broker.storage.segments.timed_batch import TimedBatch
from ottla.broker.storage.segments.transaction_index import AbortedTransaction
from ottla.buffers import Buffer
from ottla.config.topic import TopicConfig
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.header import (
    LEADER_EPOCH_POSITION,
    LOG_OVERHEAD,
    BatchHeader,
    batches,
    place_prefix,
    set_place,
)
from ottla.records.header_fields import (
    BATCH_LENGTH,
    LAST_OFFSET_DELTA,
    MAGIC,
    MAX_TIMESTAMP,
    PRODUCER_ID,
)
from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk

if TYPE_CHECKING:
    from ottla.broker.storage.replacement import Replacement

logger = get_logger("ottla.storage.log")

_AFTER_EPOCH = LEADER_EPOCH_POSITION + 4


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    log_start_offset: int


class Log:
    """The offsets of a log and its parts: segments, flusher, leader epochs, producers.

    It is one thing: each method keeps the parts consistent with each other and with the offsets,
    and an error of the disk in any of them takes the whole log offline.
    """

    __slots__ = (
        "_clock",
        "config",
        "deleted_files",
        "disk",
        "end_offset",
        "epochs",
        "failure",
        "flusher",
        "log_start_offset",
        "on_roll",
        "on_truncate",
        "partition",
        "producers",
        "replacement",
        "segments",
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
        *,
        is_new_folder: bool,
    ) -> None:
        self.disk = disk
        self._clock = clock
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        self.end_offset = loaded.end_offset
        self.segments = Segments(disk, directory, loaded.segments)
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.flusher = Flusher(
            self.segments,
            self.epochs,
            self.producers,
            clock,
            loaded.recovery_point,
            is_new_folder=is_new_folder,
            has_topic_id=topic_id is not None,
        )
        self.deleted_files = DeletedFiles(disk, clock)
        if loaded.dropped_paths:
            self.deleted_files.add(loaded.dropped_paths, config.file_delete_delay_ms)
        self.replacement: Replacement | None = None
        """The replacement of segments by a compacted one, if one is in progress."""
        self.failure: str | None = None
        """Why the log refuses everything, if it does."""
        # Set when the log manager adopts the log: until a move is over, the copy has neither.
        self.on_roll: Callable[[Log], None] | None = None
        """Called when a segment was rolled: the one before should be flushed, in a thread."""
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
        """Load the log in `directory`, or create one there. May be run in a thread.

        `clean`: the folder was closed properly, so nothing needs recovery. If not, `settle` should
        follow when there is time.
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
        except OSError as error:
            raise LogDirFailure(os.path.dirname(directory), error) from error
        return cls(
            disk,
            directory,
            topic,
            partition,
            config,
            clock,
            loaded,
            topic_id,
            is_new_folder=not (names and clean),
        )

    def __repr__(self) -> str:
        return f"Log({self.directory!r}, {self.log_start_offset} to {self.end_offset})"

    @property
    def directory(self) -> str:
        return self.segments.directory

    @property
    def parent_directory(self) -> str:
        """The log dir."""
        # Called for all logs every few seconds; three times as fast as `os.path.dirname`.
        return self.segments.directory.rpartition("/")[0] or "/"

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is safely on disk."""
        return self.flusher.recovery_point

    @property
    def generation(self) -> int:
        """Changes each time that the log is truncated."""
        return self.flusher.generation

    @property
    def unflushed_messages(self) -> int:
        return self.end_offset - self.flusher.recovery_point

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last leader that appended; -1 if there was none."""
        return self.epochs.latest

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """Return (greatest epoch not above `epoch`, its end offset); (-1, -1) if unknown."""
        return self.epochs.end_offset_for(epoch, self.end_offset)

    def update_config(self, config: TopicConfig) -> None:
        """Apply a new config from the next append, roll and retention check on."""
        self.config = config

    # Appending

    def append(
        self, batch: Buffer, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> Appended:
        """Assign the next offsets to a validated batch and write it.

        `header` is that of `batch` except for base offset and leader epoch, which are set here: in
        place if the buffer is writable. If it raises `LogDirFailure`, nothing of the batch is
        visible.
        """
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        base_offset = self.end_offset
        length = header[BATCH_LENGTH]
        size = LOG_OVERHEAD + length
        last_offset = base_offset + header[LAST_OFFSET_DELTA]
        max_timestamp = header[MAX_TIMESTAMP]
        buffers: tuple[Buffer, ...]
        if isinstance(batch, bytes) or (isinstance(batch, memoryview) and batch.readonly):
            prefix = place_prefix(length, base_offset, leader_epoch)
            buffers = (prefix, memoryview(batch)[_AFTER_EPOCH:])
        else:
            set_place(batch, length, base_offset, leader_epoch)
            buffers = (batch,)
        try:
            segments = self.segments
            segment = segments.active
            if segment.should_roll(self.config, size, last_offset, max_timestamp, now_ms):
                segment = self._roll_before(size, base_offset)
            if leader_epoch != self.epochs.latest and leader_epoch >= 0:
                self.epochs.assign(leader_epoch, base_offset)
            position = segment.write(buffers, size)
            segment.note(position, size, last_offset, max_timestamp)
            segments.recent.add(base_offset, position, size)
            self.end_offset = last_offset + 1
            producers = self.producers
            if header[PRODUCER_ID] >= 0:
                placed = (base_offset, length, leader_epoch, *header[MAGIC:])
                aborted = producers.apply(placed, batch)
                if aborted is not None:
                    segment.note_aborted(aborted)
            producers.end_offset = last_offset + 1
        except OSError as error:
            self._fail(error)
        return Appended(base_offset, last_offset, self.log_start_offset)

    def append_at(self, data: Buffer, now_ms: int) -> Appended | None:
        """Append whole batches that already have their offsets and epochs, as a follower does.

        They may leave gaps (compaction does) but not go back: that raises `UnexpectedOffset`. A
        partial batch at the end is left out. Returns `None` if there was no whole batch.
        """
        found = list(batches(data))
        return self.append_batches(found, now_ms) if found else None

    def append_batches(self, found: list[tuple[BatchHeader, memoryview]], now_ms: int) -> Appended:
        """Like `append_at`, given the batches: at least one."""
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
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
        """Append batches with one write per segment."""
        segment = self.segments.active
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
        producers = self.producers
        position = segment.write([batch for _, batch in run], sum(len(batch) for _, batch in run))
        for header, batch in run:
            if header.partition_leader_epoch > self.epochs.latest:
                # Its first batches may be compacted away: it began somewhere between the last
                # batch here and this one. A follower that is told too early an offset copies
                # records again; told too late a one, it would keep records that nobody else has.
                self.epochs.assign(header.partition_leader_epoch, self.end_offset)
            segment.note(position, header.size, header.last_offset, header.max_timestamp)
            self.segments.recent.add(header.base_offset, position, header.size)
            self.end_offset = header.next_offset
            if header.producer_id >= 0:
                aborted = producers.apply(header, batch)
                if aborted is not None:
                    segment.note_aborted(aborted)
            producers.end_offset = self.end_offset
            position += header.size

    def append_copied(
        self,
        found: list[tuple[BatchHeader, memoryview]],
        now_ms: int,
        wanted: Callable[[], bool],
    ) -> None:
        """Like `append_batches`, for a copy that nothing else uses, in a thread: it waits until a
        flush or the closing of the log is over, and then does nothing unless it is still
        `wanted`."""
        with self.flusher.exclusive:
            if not wanted():
                return
            first_offset = found[0][0].base_offset
            if first_offset < self.end_offset == self.log_start_offset:
                # A log may begin in the middle of a batch, but the copy contains the whole batch.
                self.truncate_fully_and_start_at(first_offset, self.log_start_offset)
            self.append_batches(found, now_ms)

    def assign_epoch(self, leader_epoch: int) -> None:
        """Note a new leader: it appends from `end_offset` on."""
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, self.end_offset)

    # Rolling

    def roll(self) -> None:
        """Begin a new segment at the log end, unless the active one is still empty."""
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        try:
            if self.segments.active.size:
                self._roll_to(self.end_offset)
        except OSError as error:
            self._fail(error)

    def skip_to(self, offset: int) -> None:
        """Continue at `offset`, leaving a gap before it: compaction left nothing there to copy."""
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        try:
            self._begin_segment(offset)
        except OSError as error:
            self._fail(error)
        self.end_offset = self.producers.end_offset = offset

    def _roll_before(self, size: int, base_offset: int) -> Segment:
        """Return a segment for a batch of `size` bytes at `base_offset`."""
        if size > self.config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes does not fit into a segment of "
                f"{self.config.segment_bytes} (segment.bytes)",
            )
        self._begin_segment(base_offset)
        return self.segments.active

    def _begin_segment(self, base_offset: int) -> None:
        if self.segments.active.size:
            self._roll_to(base_offset)
            return
        # An empty segment that cannot hold a batch is replaced: its base offset is too low, or it
        # has no room for index entries because `segment.index.bytes` was changed.
        old = self.segments.drop_active()
        if old.base_offset != base_offset:
            self._delete_files([old])
        self.segments.create(base_offset, self.config, self._clock.wall_ms())

    def _roll_to(self, base_offset: int) -> None:
        active = self.segments.active
        active.seal(preallocated=self.config.preallocate)
        if self.config.compact:
            # A power failure may take the end of one segment and leave the next. In other logs the
            # missing offsets show it; here compaction may have removed them.
            active.sync(with_indexes=False)
        self.producers.end_offset = base_offset
        self.producers.take_snapshot(self.disk, self.directory)
        self.segments.create(base_offset, self.config, self._clock.wall_ms())
        logger.debug("Rolled %s at offset %d", self.directory, base_offset)
        if self.on_roll is not None:
            self.on_roll(self)

    # Reading

    def read(
        self, offset: int, max_bytes: int, limit_offset: int, *, min_one: bool = True
    ) -> LogSlice | None:
        """Return about `max_bytes` of batches, from the one that contains `offset` to below
        `limit_offset`.

        `min_one`: the first batch is included as a whole even if it is larger. The slice lies in
        one segment, and its last batch may be incomplete, which readers expect. Returns `None` if
        there is nothing.
        """
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        end_offset = self.end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, end_offset)
        if limit_offset > end_offset:
            limit_offset = end_offset
        if offset >= limit_offset:
            return None
        segments = self.segments
        try:
            if offset >= segments.active.base_offset:
                return read_active(segments, offset, max_bytes, limit_offset, end_offset, min_one)
            return read_older(segments, offset, max_bytes, limit_offset, end_offset, min_one)
        except OSError as error:
            self._fail(error)

    def batch_for_timestamp(self, timestamp: int, first_offset: int) -> TimedBatch | int | None:
        """Return the first batch from `first_offset` on whose header claims a record not older than
        `timestamp`; None if there is none; or the offset from which to continue, so that a long
        lookup consists of short ones."""
        first_offset = max(first_offset, self.log_start_offset)
        try:
            return log_reading.batch_for_timestamp(self.segments, timestamp, first_offset)
        except OSError as error:
            self._fail(error)

    def batch_of_max_timestamp(self) -> TimedBatch | None:
        """Return the batch whose header claims the highest timestamp; of several, the first."""
        try:
            return log_reading.batch_of_max_timestamp(self.segments)
        except OSError as error:
            self._fail(error)

    def aborted_transactions_in(self, offset: int, part: LogSlice) -> list[AbortedTransaction]:
        """Return the transactions that a reader at `offset` must skip in a slice that `read`
        returned."""
        try:
            return log_reading.aborted_in_slice(self.segments, offset, part, self.end_offset)
        except OSError as error:
            self._fail(error)

    # Flushing

    def flush_due(self, now_ms: int) -> bool:
        """True if `flush.messages` or `flush.ms` demands a flush."""
        unflushed = self.unflushed_messages
        if unflushed <= 0:
            return False
        return (
            unflushed >= self.config.flush_messages
            or now_ms - self.flusher.last_flush_ms >= self.config.flush_ms
        )

    def flush(self, upto: int | None = None) -> None:
        """Make everything below `upto` (the end, if not given) survive a power failure.

        Meant for a thread. Appends may go on meanwhile; those after its start may not be covered.
        Flushes exclude each other, and one whose work was done by another costs nothing.
        """
        with self.flusher.exclusive:
            self._flush(upto)

    def _flush(self, upto: int | None = None) -> None:
        generation = self.flusher.generation
        target = self.end_offset if upto is None else min(upto, self.end_offset)
        if self.failure is not None:
            return
        try:
            self.flusher.flush_to(target, generation)
        except OSError as error:
            if self.failure is None:
                self._fail(error)

    def settle(self) -> None:
        """Make a recovered log durable. Meant for a thread, some time after an unclean start.

        Until then another crash may bring back records that were truncated before, but never among
        or instead of data that a flush has made durable.
        """
        try:
            self.sync_cuts()
        except OSError as error:
            self._fail(error)
        self.flush()

    def sync_cuts(self) -> None:
        """Make truncations and removed names durable. Meant for a thread, soon after either."""
        with self.flusher.exclusive:
            self.flusher.sync_cuts()

    # Truncation and deletion

    def truncate_to(self, offset: int) -> bool:
        """Remove everything from `offset` on; True if there was anything.

        A batch that contains `offset` is removed as a whole, and the log then ends where that batch
        began.
        """
        if offset < 0:
            raise ValueError(f"cannot truncate {self.directory} to offset {offset}")
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        if offset >= self.end_offset:
            self.epochs.truncate_from_end(self.end_offset)
            return False
        logger.info("Truncating %s from %d to offset %d", self.directory, self.end_offset, offset)
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        try:
            self._truncate(offset)
        except OSError as error:
            self._fail(error)
        return True

    def _truncate(self, offset: int) -> None:
        self._settle_replacement()
        # Delete from the end backwards, with each step durable before the next, so that a crash at
        # any point leaves a prefix of the log.
        dropped = self.segments.drop_after(offset)
        if dropped:
            self._delete_files(dropped[::-1])
            self.disk.sync_dir(self.directory)
        self.end_offset = min(offset, self.segments.active.truncate_to(offset))
        self.flusher.truncated(self.end_offset)
        self.log_start_offset = min(self.log_start_offset, self.end_offset)
        self.epochs.truncate_from_end(self.end_offset)
        rebuild_producers(self.producers, self.segments, self.log_start_offset, self.end_offset)
        if self.on_truncate is not None:
            self.on_truncate(self)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything; the next append gets `offset`."""
        if self.failure is not None:
            raise LogFailed(self.directory, self.failure)
        try:
            self._settle_replacement()
            self._delete_files(self.segments.drop_all()[::-1])
            self.segments.create(offset, self.config, self._clock.wall_ms())
            self.end_offset = offset
            self.log_start_offset = offset if log_start_offset is None else log_start_offset
            self.flusher.truncated(offset)
            self.epochs.clear()
            for snapshot in list(self.producers.snapshots):
                self.producers.remove_snapshot(self.disk, self.directory, snapshot)
            self.producers.clear(offset)
        except OSError as error:
            self._fail(error)
        if self.on_truncate is not None:
            self.on_truncate(self)

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start to `offset` (DeleteRecords, retention); True if it was lower.

        The caller has compared `offset` with the high watermark. The log dir's checkpoint of start
        offsets makes it durable; whole segments below it are deleted by the next retention check.
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
        """Apply retention; return the number of deleted segments. Does nothing while a compacted
        segment is being put in place."""
        if self.failure is not None or self.replacement is not None:
            return 0
        try:
            count = self._delete_front(
                retention.before_offset(self.log_start_offset), high_watermark
            )
            if self.config.delete:
                by_size = retention.beyond_size(self.segments, self.config.retention_bytes)
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
            self.segments, self.end_offset, high_watermark, is_expired
        )
        if not count:
            return 0
        if count == len(self.segments):
            # There must always be an active segment, which is not deleted.
            self._roll_to(self.end_offset)
        dropped = self.segments.drop_first(count)
        self.increment_log_start_offset(self.segments[0].base_offset)
        logger.info(
            "Deleting %d segments of %s, which now begins at offset %d",
            count,
            self.directory,
            self.log_start_offset,
        )
        self._delete_files(dropped)
        return count

    def _delete_files(self, segments: list[Segment]) -> None:
        """Rename the files of dropped segments now, in the given order; they are removed after
        `file.delete.delay.ms`."""
        if not segments:
            return
        paths = []
        for segment in segments:
            paths += segment.files.mark_deleted()
            paths += self.producers.mark_snapshot_deleted(
                self.disk, self.directory, segment.base_offset
            )
        self.flusher.has_removed_names = True
        self.deleted_files.add(paths, self.config.file_delete_delay_ms)

    def replace_segments(
        self, cleaned: Segment, replaced: Sequence[Segment], generation: int
    ) -> Replacement:
        """Begin to replace segments by the compacted segment made from them.

        `generation` is that of the log when the work began: records truncated since must not come
        back.
        """
        # Imported now: only compaction needs it.
        from ottla.broker.storage.replacement import Replacement, check_replaceable

        check_replaceable(self, replaced, generation)
        self.replacement = Replacement(self, cleaned, replaced)
        return self.replacement

    def _settle_replacement(self) -> None:
        if self.replacement is not None:
            self.replacement.settle()

    # Closing

    def close(self, clean: bool) -> None:
        """Close all files. `clean`: complete and sync everything, so that the next start may trust
        it."""
        if self.failure is not None:
            self.segments.release()
            return
        if clean:
            try:
                with self.flusher.exclusive:
                    self._close_cleanly()
            except OSError as error:
                self._fail(error)
        self.failure = "closed"
        self.segments.release()

    def _close_cleanly(self) -> None:
        self._settle_replacement()
        self.segments.active.seal(preallocated=self.config.preallocate)
        has_new_snapshot = self.producers.take_snapshot(self.disk, self.directory, sync=True)
        for segment in self.segments:
            if not segment.indexes_synced:
                segment.sync_indexes()
        self.flusher.sync_cuts()
        self._flush()
        if has_new_snapshot:
            self.disk.sync_dir(self.directory)
        self.flusher.write_epochs()

    def fail(self, cause: BaseException) -> None:
        """Refuse everything from now on, because the disk failed, and close what can be closed."""
        self.failure = f"offline, its disk failed: {cause}"
        self.segments.release()

    def _fail(self, error: OSError) -> NoReturn:
        """Refuse everything from now on; the owner of the log dir takes it offline."""
        self.failure = f"offline, its disk failed: {error}"
        logger.error("Log %s failed: %s", self.directory, error)
        raise LogDirFailure(self.parent_directory, error) from error


def _settle_topic_id(
    disk: Disk, directory: str, names: list[str], topic_id: bytes | None
) -> bytes | None:
    """Return the topic id in the folder, or else the given one, which is then written there."""
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
