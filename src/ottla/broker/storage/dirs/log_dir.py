"""A log dir: its lock, its identity, its checkpoints, and whether it is online."""

from __future__ import annotations

import os.path
from collections.abc import Iterable

from ottla.broker.storage.dirs import checkpoints
from ottla.broker.storage.dirs.checkpoints import OffsetCheckpoint, PartitionOffsets
from ottla.broker.storage.dirs.clean_shutdown import marked_epoch, take_marker, write_marker
from ottla.broker.storage.dirs.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from ottla.broker.storage.errors import CorruptFile
from ottla.broker.storage.log import Log
from ottla.broker.storage.names import parse_partition_dir_name
from ottla.logs import get_logger
from ottla.runtime.disk import Disk, Lock

logger = get_logger("ottla.storage.dirs")

LOCK_NAME = ".lock"


class LogDirInUse(RuntimeError):
    """Another broker uses the folder."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"data folder {path} is used by another broker (its file {LOCK_NAME} is locked): "
            "stop that one, or choose another folder with log.dirs"
        )


class LogDirUnidentified(RuntimeError):
    """The folder has partitions but no `meta.properties`."""

    def __init__(self, path: str, example: str) -> None:
        super().__init__(
            f"data folder {path} holds partitions ({example}) but no meta.properties, so it cannot "
            "be told which cluster and node they belong to: put the file back (version=1, "
            "cluster.id, node.id, directory.id), or choose an empty folder with log.dirs"
        )


class LogDir:
    __slots__ = (
        "_disk",
        "_lock",
        "high_watermarks",
        "id",
        "last_epoch",
        "loaded",
        "log_start_offsets",
        "online",
        "path",
        "recovery_points",
        "serves_partitions",
        "was_clean",
    )

    def __init__(self, disk: Disk, path: str, *, serves_partitions: bool = True) -> None:
        self._disk = disk
        self.path = path
        self.serves_partitions = serves_partitions
        self.id = bytes(16)
        self.online = False
        self.was_clean = False
        self.last_epoch = -1
        """The broker epoch in which it was closed properly, or -1."""
        self.loaded = False
        """True if every log in it was loaded: it may be marked as closed properly."""
        self._lock: Lock | None = None
        self.recovery_points = OffsetCheckpoint(disk, path, checkpoints.RECOVERY_POINTS)
        self.log_start_offsets = OffsetCheckpoint(disk, path, checkpoints.LOG_START_OFFSETS)
        self.high_watermarks = OffsetCheckpoint(disk, path, checkpoints.HIGH_WATERMARKS)

    def open(self) -> MetaProperties | None:
        """Create and lock the folder; return its `meta.properties`, if it was used before.

        Raises `OSError` if the disk does not work, `LogDirInUse` if another broker uses the folder.
        """
        self._disk.make_dirs(self.path)
        try:
            self._lock = self._disk.lock(os.path.join(self.path, LOCK_NAME))
        except BlockingIOError:
            raise LogDirInUse(self.path) from None
        properties = read_meta_properties(self._disk, self.path)
        if properties is None and (used := self._partition_folders()):
            raise LogDirUnidentified(self.path, used[0])
        self.last_epoch = marked_epoch(self._disk, self.path)
        self.was_clean = take_marker(self._disk, self.path)
        self.online = True
        return properties

    def _partition_folders(self) -> list[str]:
        return [name for name in self.partition_names() if parse_partition_dir_name(name)]

    def identify(self, properties: MetaProperties) -> None:
        write_meta_properties(self._disk, self.path, properties)

    def read_offsets(self, checkpoint: OffsetCheckpoint) -> PartitionOffsets:
        """Read a checkpoint. A damaged one counts as empty: then more is recovered than necessary,
        never less."""
        try:
            return checkpoint.read()
        except CorruptFile as error:
            logger.warning("Ignoring a damaged checkpoint: %s", error)
            return {}

    def partition_names(self) -> list[str]:
        """Return the names that may be partition folders. Files begin with a dot or have no number
        at the end."""
        return [name for name in self._disk.list_dir(self.path) if "-" in name]

    def write_log_offsets(self, logs: Iterable[Log]) -> None:
        """Write recovery points and start offsets, after what they promise is durable: see
        `Log.flush`."""
        points, starts = log_offsets(logs)
        self.recovery_points.write(points)
        self.log_start_offsets.write(starts)

    def mark_clean(self, broker_epoch: int) -> None:
        write_marker(self._disk, self.path, broker_epoch)

    def release(self) -> None:
        """Unlock the folder."""
        self.online = False
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


def log_offsets(logs: Iterable[Log]) -> tuple[PartitionOffsets, PartitionOffsets]:
    """Return (recovery points, the start offsets that differ from the first segment's base
    offset)."""
    points: PartitionOffsets = {}
    starts: PartitionOffsets = {}
    for log in logs:
        partition = (log.topic, log.partition)
        points[partition] = log.recovery_point
        if log.log_start_offset > log.segments[0].base_offset:
            starts[partition] = log.log_start_offset
    return points, starts
