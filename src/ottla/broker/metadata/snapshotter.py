"""Writes snapshots of the image, and deletes the log before them.

Every node writes its own: after a number of bytes of records, or a time after the first record that
is not in the last snapshot. Then everything older than the oldest retained snapshot is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ottla.broker.metadata.batches import split
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.records import encode_record
from ottla.broker.metadata.snapshot import image_records
from ottla.broker.quorum import snapshot_files
from ottla.broker.quorum.quorum import Quorum
from ottla.broker.raft.ids import OffsetAndEpoch
from ottla.config.broker import BrokerConfig
from ottla.logs import get_logger
from ottla.protocol.control_records.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.errors import KafkaError
from ottla.protocol.schema import Message
from ottla.runtime.runtime import Runtime, Timer

log = get_logger("ottla.metadata")


class Retention(NamedTuple):
    """How long old snapshots, and the log before them, are retained."""

    bytes_max: int
    age_max_ms: int


class Snapshotter:
    def __init__(self, runtime: Runtime, quorum: Quorum, config: BrokerConfig) -> None:
        self._runtime = runtime
        self._quorum = quorum
        self._bytes_max: int = config["metadata.log.max.record.bytes.between.snapshots"]
        self._interval_ms: int = config["metadata.log.max.snapshot.interval.ms"]
        self._retention = Retention(
            config["metadata.max.retention.bytes"], config["metadata.max.retention.ms"]
        )
        self._image: MetadataImage | None = None
        self._bytes = 0
        """Bytes of records in the image that are in no snapshot."""
        self._timer: Timer | None = None
        self._is_writing = False
        self._finished: asyncio.Future[None] | None = None
        """Awaited by `close`."""
        self._closed = False

    def replayed(self) -> None:
        """Count the records that are in no snapshot, after the whole log was read at the start."""
        self._bytes += self._quorum.log.bytes_after_snapshot()

    def applied(self, image: MetadataImage, size: int) -> None:
        """Note that `size` bytes of records were applied to the image."""
        self._image = image
        self._bytes += size
        if self._bytes >= self._bytes_max:
            self._begin()
        elif self._bytes and self._timer is None and self._interval_ms > 0:
            self._timer = self._runtime.call_later(self._interval_ms / 1000, self._begin)

    async def close(self) -> None:
        self._closed = True
        self._cancel_timer()
        if self._is_writing:
            self._finished = asyncio.get_running_loop().create_future()
            await self._finished

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._cancel_timer()
        if not self._is_writing and not self._closed and self._image is not None:
            self._is_writing = True
            self._bytes = 0
            self._runtime.spawn(self._write(self._image), name="metadata-snapshot")

    async def _write(self, image: MetadataImage) -> None:
        try:
            if await self._store(image) and not self._closed:
                await self._clean()
        except (OSError, KafkaError) as error:
            self._quorum.fail(error)
        finally:
            self._is_writing = False
            if self._finished is not None:
                self._finished.set_result(None)
        if self._bytes >= self._bytes_max:
            self._begin()

    async def _store(self, image: MetadataImage) -> bool:
        """Write a snapshot. Returns False if there is a later one, or it could not be written: the
        log still has everything, so that is no reason to stop."""
        quorum_log = self._quorum.log
        snapshot = OffsetAndEpoch(image.offset + 1, quorum_log.epoch_at(image.offset + 1))
        latest = quorum_log.latest_snapshot
        if latest is not None and latest.offset >= snapshot.offset:
            return False
        control = self._control_records(image.offset)
        try:
            await self._runtime.in_thread(self._write_file, image, snapshot, control)
        except OSError as error:
            log.error("no snapshot of the metadata could be written: %s", error)
            return False
        quorum_log.add_snapshot(snapshot)
        log.info("wrote a snapshot of the metadata up to offset %d", image.offset)
        return True

    def _control_records(self, offset: int) -> list[Message]:
        core = self._quorum.core
        version = core.kraft_version_at(offset)
        if version == 0:
            return []
        return [KRaftVersionRecord(k_raft_version=version), core.voters_at(offset).to_record()]

    def _write_file(
        self, image: MetadataImage, snapshot: OffsetAndEpoch, control: Sequence[Message]
    ) -> None:
        batches = snapshot_files.snapshot_batches(
            split(encode_record(record) for record in image_records(image)),
            control,
            epoch=snapshot.epoch,
            timestamp_ms=self._runtime.clock.wall_ms(),
        )
        name = snapshot_files.name_of(snapshot)
        snapshot_files.write(self._runtime.disk, self._quorum.log.directory, name, batches)

    async def _clean(self) -> None:
        """Delete old snapshots and the log before the oldest retained one."""
        quorum_log = self._quorum.log
        # so that the segments covered by this snapshot can be deleted with the next one
        quorum_log.storage.roll()
        await self._runtime.in_thread(quorum_log.flush)
        if self._closed:
            return
        kept = self._oldest_to_keep()
        if kept is not None and kept.offset <= quorum_log.flushed_offset:
            quorum_log.start_at(kept)
            delay_s = quorum_log.storage.config.file_delete_delay_ms / 1000
            self._runtime.call_later(delay_s + 1, self._remove_files)

    def _oldest_to_keep(self) -> OffsetAndEpoch | None:
        quorum_log = self._quorum.log
        snapshots = quorum_log.snapshots
        total = quorum_log.storage.size_bytes + sum(map(quorum_log.snapshot_bytes, snapshots))
        aged_ms = self._runtime.clock.wall_ms() - self._retention.age_max_ms
        index = 0
        while index < len(snapshots) - 1:
            written_ms = quorum_log.snapshot_ms(snapshots[index])
            is_old = self._retention.age_max_ms >= 0 and written_ms < aged_ms
            is_too_much = 0 <= self._retention.bytes_max < total
            if not is_old and not is_too_much:
                break
            total -= quorum_log.snapshot_bytes(snapshots[index])
            total -= quorum_log.bytes_between(snapshots[index], snapshots[index + 1])
            index += 1
        return snapshots[index] if index else quorum_log.earliest_snapshot

    def _remove_files(self) -> None:
        if not self._closed:
            self._runtime.spawn(self._remove(), name="remove-metadata-files")

    async def _remove(self) -> None:
        now_ms = self._runtime.clock.wall_ms()
        await self._runtime.in_thread(self._quorum.log.storage.deleted_files.remove_due, now_ms)
