"""The metadata log as the quorum's core sees it: `LogView` on a log of `storage/`.

It adds the snapshots to that log, one of which replaces the records that the log no longer has. A
log that was replaced by a snapshot counts as safe only after the next flush.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from ottla.broker.quorum import snapshot_files
from ottla.broker.quorum.control_codec import decode_batch, encode_batch, is_of_quorum
from ottla.broker.raft.ids import CLUSTER_METADATA, OffsetAndEpoch
from ottla.broker.raft.log_view import EMPTY_LOG, ControlRecord, InvalidRecords, SnapshotPart
from ottla.broker.storage import leader_epochs
from ottla.broker.storage.errors import CorruptFile, LogFailed, UnexpectedOffset
from ottla.broker.storage.log import Log
from ottla.broker.storage.names import LOG_SUFFIX, offset_in_name
from ottla.buffers import Buffer
from ottla.config.topic import TopicConfig
from ottla.protocol.schema import Records
from ottla.protocol.uuids import METADATA_TOPIC_ID
from ottla.records.errors import InvalidBatch
from ottla.records.header import BatchHeader, batches, read_header
from ottla.records.reader import check_crc
from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk, FileSlice

READ_BYTES: Final = 8 * 1024 * 1024


class QuorumLog:
    """Belongs to the loop, except `open`, `flush` and `finish_snapshot`, which are for threads."""

    def __init__(
        self, disk: Disk, clock: Clock, storage: Log, snapshots: list[OffsetAndEpoch]
    ) -> None:
        self.storage = storage
        self.snapshots = snapshots
        """The snapshots on disk, oldest first."""
        self._disk = disk
        self._clock = clock
        self._restarts = 0
        self._restarts_flushed = 0

    @classmethod
    def open(
        cls, disk: Disk, clock: Clock, directory: str, config: TopicConfig, *, clean: bool
    ) -> QuorumLog:
        names = disk.list_dir(directory) if disk.exists(directory) else []
        snapshot_files.remove_parts(disk, directory, names)
        snapshots = snapshot_files.find(names)
        storage = Log.open(
            disk,
            directory,
            CLUSTER_METADATA,
            0,
            config,
            clock,
            log_start_offset=start_offset(directory, names, snapshots),
            clean=clean,
            topic_id=METADATA_TOPIC_ID,
        )
        return cls(disk, clock, storage, snapshots)

    @property
    def directory(self) -> str:
        return self.storage.directory

    # LogView: start and end

    @property
    def start_offset(self) -> int:
        return self.storage.log_start_offset

    @property
    def end(self) -> OffsetAndEpoch:
        offset = self.storage.end_offset
        if offset > self.start_offset:
            return OffsetAndEpoch(offset, self.storage.latest_epoch)
        first = self.earliest_snapshot
        return EMPTY_LOG if first is None else first

    @property
    def flushed_offset(self) -> int:
        return self.storage.recovery_point if self._restarts == self._restarts_flushed else 0

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        start, end = self.start_offset, self.storage.end_offset
        entries = [(e, at) for e, at in self.storage.epochs.entries if start <= at < end]
        index = bisect_right(entries, epoch, key=lambda entry: entry[0])
        ends_at = entries[index][1] if index < len(entries) else end
        if index:
            return OffsetAndEpoch(ends_at, entries[index - 1][0])
        first = self.earliest_snapshot
        if first is None:
            return EMPTY_LOG
        return OffsetAndEpoch(ends_at, first.epoch) if first.epoch <= epoch else first

    def epoch_at(self, end_offset: int) -> int:
        """Return the epoch of the record before this offset."""
        if end_offset > self.start_offset:
            return self.storage.epochs.epoch_of_offset(end_offset - 1)
        first = self.earliest_snapshot
        return EMPTY_LOG.epoch if first is None else first.epoch

    # LogView: reads and writes

    def read(self, offset: int, max_bytes: int) -> Records:
        part = self.storage.read(offset, max_bytes, self.storage.end_offset)
        return b"" if part is None else part.read()

    def batches_from(
        self, offset: int, limit_offset: int
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield every batch from the one with `offset` to before `limit_offset`."""
        while offset < limit_offset:
            part = self.storage.read(offset, READ_BYTES, limit_offset)
            if part is None:
                raise CorruptFile(self.directory, f"has nothing to read at offset {offset}")
            for header, batch in batches(part.read()):
                yield header, batch
                offset = header.next_offset

    def append_control(self, records: Sequence[ControlRecord], epoch: int) -> int:
        now_ms = self._clock.wall_ms()
        return self.append(encode_batch(records, epoch=epoch, timestamp_ms=now_ms), epoch)

    def append(self, batch: Buffer, epoch: int) -> int:
        """Append as the leader of this epoch; return the offset of the last record."""
        now_ms = self._clock.wall_ms()
        return self.storage.append(batch, read_header(batch), epoch, now_ms).last_offset

    def append_fetched(self, records: Records) -> None:
        data = records.read() if isinstance(records, FileSlice) else records or b""
        expected, epoch = self.storage.end_offset, self.end.epoch
        try:
            found = list(batches(data))
            for header, batch in found:
                check_crc(header, batch)
                if header.base_offset != expected or header.partition_leader_epoch < epoch:
                    raise InvalidRecords(f"{header.base_offset} does not continue {expected}")
                expected, epoch = header.next_offset, header.partition_leader_epoch
            if not found:
                raise InvalidRecords("not one whole batch")
            self.storage.append_at(data, self._clock.wall_ms())
        except (InvalidBatch, UnexpectedOffset) as error:
            raise InvalidRecords(str(error)) from error

    def truncate(self, offset: int) -> None:
        self.storage.truncate_to(offset)

    def control_records(self, offset: int) -> Iterable[tuple[int, ControlRecord]]:
        start = self.start_offset
        if offset < start or (start == 0 and offset < 0):
            for record in self._settled():
                yield start - 1, record
        for header, batch in self.batches_from(max(offset, start), self.storage.end_offset):
            if header.is_control:
                for at, found in decode_batch(batch):
                    if at >= offset and is_of_quorum(found):
                        yield at, found

    def _settled(self) -> list[ControlRecord]:
        """Return the control records about voters in the snapshot that the log starts with."""
        at_start = [each for each in self.snapshots if each.offset == self.start_offset]
        if not at_start:
            return []
        path = snapshot_files.path_of(self.directory, at_start[-1])
        return snapshot_files.control_records(self._disk, path)

    # LogView: snapshots

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots[-1] if self.snapshots else None

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        start = self.start_offset
        at_start = [each for each in self.snapshots if start and each.offset == start]
        return at_start[-1] if at_start else None

    def read_snapshot(
        self, snapshot: OffsetAndEpoch, position: int, max_bytes: int
    ) -> SnapshotPart | None:
        if snapshot not in self.snapshots:
            return None
        file = self._disk.open(snapshot_files.path_of(self.directory, snapshot))
        try:
            return SnapshotPart(file.size(), file.read_at(position, max_bytes))
        finally:
            file.close()

    def write_snapshot(self, snapshot: OffsetAndEpoch, position: int, records: Records) -> None:
        path = snapshot_files.path_of(self.directory, snapshot) + snapshot_files.PART_SUFFIX
        data = records.read() if isinstance(records, FileSlice) else records or b""
        file = self._disk.open(path, create=True)
        try:
            file.truncate(position)
            file.write_at(position, [data])
        finally:
            file.close()

    def restart_at_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        self._restarts += 1
        self.storage.truncate_fully_and_start_at(snapshot.offset)

    # The driver's side

    def flush(self) -> None:
        """Make everything durable that was there when it began."""
        restarts = self._restarts
        if restarts != self._restarts_flushed:
            self.storage.sync_cuts()
            self.storage.epochs.write(self._disk, f"{self.directory}/{leader_epochs.FILE_NAME}")
        self.storage.flush()
        if self.storage.failure is not None:  # then the flush did nothing, and would again
            raise LogFailed(self.directory, self.storage.failure)
        self._restarts_flushed = restarts

    def finish_snapshot(self, snapshot: OffsetAndEpoch) -> bool:
        """Verify a fetched snapshot, once all parts are here, and make it durable; True if it is
        valid."""
        return snapshot_files.finish_part(self._disk, self.directory, snapshot)

    def add_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Note that this snapshot is on disk now."""
        if snapshot not in self.snapshots:
            self.snapshots = sorted([*self.snapshots, snapshot])

    def snapshot_bytes(self, snapshot: OffsetAndEpoch) -> int:
        return self._disk.size(snapshot_files.path_of(self.directory, snapshot))

    def snapshot_ms(self, snapshot: OffsetAndEpoch) -> int:
        """Return when it was written."""
        return self._disk.modified_ms(snapshot_files.path_of(self.directory, snapshot))

    def bytes_between(self, older: OffsetAndEpoch, newer: OffsetAndEpoch) -> int:
        """Return the bytes of the segments that are deleted if the log no longer starts at the
        older snapshot."""
        segments = self.storage.segments
        return sum(
            segment.size
            for segment, following in pairwise(segments)
            if older.offset < following.base_offset <= newer.offset
        )

    def bytes_after_snapshot(self) -> int:
        """Return the bytes of the log after the latest snapshot. This is approximate: it counts
        whole segments."""
        latest = self.latest_snapshot
        after = 0 if latest is None else latest.offset
        return sum(each.size for each in self.storage.segments if each.base_offset >= after)

    def start_at(self, snapshot: OffsetAndEpoch) -> None:
        """Delete everything before this snapshot, which is retained. Only after all of that is
        flushed."""
        if snapshot.offset > self.start_offset:
            self.storage.increment_log_start_offset(snapshot.offset)
            self.storage.delete_old_segments(self._clock.wall_ms(), snapshot.offset)
        old = [each for each in self.snapshots if each.offset < snapshot.offset]
        self.snapshots = [each for each in self.snapshots if each not in old]
        for each in old:
            self._disk.remove(snapshot_files.path_of(self.directory, each))


def start_offset(directory: str, names: Sequence[str], snapshots: list[OffsetAndEpoch]) -> int:
    """Return where the log begins: at a snapshot, unless its very first segment is still there."""
    bases = [base for name in names if (base := offset_in_name(name, LOG_SUFFIX)) is not None]
    first = min(bases, default=snapshots[-1].offset if snapshots else 0)
    if first == 0:
        return 0
    for snapshot in snapshots:
        if snapshot.offset >= first:
            return snapshot.offset
    raise CorruptFile(
        directory,
        f"the log begins at offset {first}, and there is no snapshot of what came before; "
        "restore the .checkpoint files, or start with an empty folder if this node is one of many",
    )
