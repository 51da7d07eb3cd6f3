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
from collections.abc import Callable
from typing import NamedTuple

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
from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk
from ottla.storage import leader_epochs, partition_metadata
from ottla.storage.errors import (
    CorruptFile,
    LogDirFailure,
    LogFailed,
    UnexpectedOffset,
)
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.log_shaping import ShapedLog
from ottla.storage.log_state import PendingDeletion
from ottla.storage.names import (
    DELETE_DIR_SUFFIX,
    STRAY_DIR_SUFFIX,
    partition_dir_name,
    retired_dir_name,
)
from ottla.storage.recovery import LogLoader
from ottla.storage.segment import Segment
from ottla.storage.transaction_index import AbortedTransaction

logger = logging.getLogger("ottla.storage.log")

_AFTER_EPOCH = LEADER_EPOCH_POSITION + 4


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    log_start_offset: int


class Log(ShapedLog):
    __slots__ = ()

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
        found = list(batches(data))
        return self.append_batches(found, now_ms) if found else None

    def append_batches(self, found: list[tuple[BatchHeader, memoryview]], now_ms: int) -> Appended:
        """The same, with the batches found already: at least one."""
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
            segment.note_aborted(AbortedTransaction(*completed[:3], stable_offset))
        self.producers.complete(completed)

    def assign_epoch(self, leader_epoch: int) -> None:
        """A leader begins: whatever it appends comes from `end_offset` on."""
        if leader_epoch > self._epoch:
            self._begin_epoch(leader_epoch, self.end_offset)

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
        self._settle_replacement()
        self._active.seal(preallocated=self.config.preallocate)
        has_new_snapshot = self.producers.take_snapshot(self._disk, self.directory, sync=True)
        for segment in self._segments:
            if not segment.indexes_synced:
                segment.sync_indexes()
        self._sync_cuts()
        self._flush()
        if has_new_snapshot:
            self._disk.sync_dir(self.directory)
        if self.epochs.dirty:
            self.epochs.write(self._disk, self._path(leader_epochs.FILE_NAME))

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
        self._give_up()
        try:
            self._disk.rename(self.directory, target)
        except OSError as error:
            raise LogDirFailure(parent, error) from error
        self._moved_to(target)
        self._release()
        return target

    def _give_up(self) -> None:
        """Nothing that was begun may be finished any more."""
        self._generation += 1
        if self._replacement is not None:
            self._replacement.forget()
        self.pending_deletions.clear()

    def _moved_to(self, directory: str) -> None:
        self.directory = directory
        for segment in self._segments:
            segment.move(directory)

    # Moving to another data folder

    def append_copied(
        self,
        found: list[tuple[BatchHeader, memoryview]],
        now_ms: int,
        wanted: Callable[[], bool],
    ) -> None:
        """Like `append_batches`, on a copy that nobody else uses, in a thread: it waits until a
        flush or the closing of the log is over, and does nothing if it is not `wanted` then."""
        with self._flush_turn:
            if not wanted():
                return
            first_offset = found[0][0].base_offset
            if first_offset < self.end_offset == self.log_start_offset:
                # A log may begin in the middle of a batch, and the batch is there as a whole.
                self.truncate_fully_and_start_at(first_offset, self.log_start_offset)
            self.append_batches(found, now_ms)

    def replace(self, current: Log, unique: str) -> str:
        """This log, a copy that has all that `current` has, takes its place; where the files of
        `current` are now, for removal after the delay.

        The old folder goes first: a crash between the two steps leaves a copy that the metadata
        names, and never two logs of one partition. `LogDirFailure` leaves all as it was.
        """
        name = retired_dir_name(self.topic, self.partition, unique, DELETE_DIR_SUFFIX)
        retired = os.path.join(current.parent_directory, name)
        place = os.path.join(self.parent_directory, partition_dir_name(self.topic, self.partition))
        current.failure = "moved to another data folder"  # a flush in a thread must not miss files
        try:
            self._exchange(current, retired, place)
        except LogDirFailure:
            current.failure = None
            raise
        self.pending_deletions = [
            PendingDeletion(due_ms, [os.path.join(place, os.path.basename(path)) for path in paths])
            for due_ms, paths in self.pending_deletions
        ]
        self._moved_to(place)
        current._give_up()
        current._moved_to(retired)
        current._release()
        self._inherit(current)
        return retired

    def _exchange(self, current: Log, retired: str, place: str) -> None:
        try:
            self._disk.rename(current.directory, retired)
        except OSError as error:
            raise LogDirFailure(current.parent_directory, error) from error
        try:
            self._disk.rename(self.directory, place)
        except OSError as error:
            try:
                self._disk.rename(retired, current.directory)
            except OSError as worse:
                raise LogDirFailure(current.parent_directory, worse) from worse
            raise LogDirFailure(self.parent_directory, error) from error

    def promote(self) -> None:
        """Of this copy the original is gone: it is the log of the partition from now on."""
        place = os.path.join(self.parent_directory, partition_dir_name(self.topic, self.partition))
        try:
            self._disk.rename(self.directory, place)
        except OSError as error:
            raise LogDirFailure(self.parent_directory, error) from error
        self.pending_deletions.clear()
        self._moved_to(place)

    def _inherit(self, current: Log) -> None:
        """What is known beside the records: epochs without any, producers whose records are gone,
        and transactions that coordinators are being asked about."""
        self.increment_log_start_offset(current.log_start_offset)
        self.epochs = LeaderEpochs(current.epochs.entries)
        self.epochs.dirty = True
        self._epoch = self.epochs.latest
        self.producers.take_over(current.producers)


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
