"""Offset checkpoints: offsets by partition, in one small file per log dir and purpose."""

from __future__ import annotations

import os.path
from collections.abc import Mapping

from ottla.broker.storage.dirs.text_checkpoint import read_checkpoint, write_checkpoint
from ottla.broker.storage.exclusive import Exclusive
from ottla.runtime.disk import Disk

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

PartitionOffsets = dict[tuple[str, int], int]


class OffsetCheckpoint:
    """An offset checkpoint file. It remembers what it wrote, so writing the same again is free."""

    __slots__ = ("_disk", "_exclusive", "_written", "path")

    def __init__(self, disk: Disk, directory: str, name: str) -> None:
        self._disk = disk
        self.path = os.path.join(directory, name)
        self._exclusive = Exclusive()
        self._written: PartitionOffsets | None = None

    def read(self) -> PartitionOffsets:
        """Return the offsets; empty if the file does not exist. Raises `CorruptFile` if it is
        damaged."""
        try:
            if not self._disk.size(self.path):
                return {}  # Kafka creates its checkpoint files before it has anything to write.
            entries = read_checkpoint(self._disk, self.path, columns=3)
        except FileNotFoundError:
            return {}
        return {(topic, int(number)): int(offset) for topic, number, offset in entries}

    def write(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Write the offsets, atomically and durably."""
        snapshot = dict(offsets)
        with self._exclusive:
            if snapshot == self._written:
                return
            lines = [f"{topic} {number} {offset}" for (topic, number), offset in snapshot.items()]
            write_checkpoint(self._disk, self.path, lines)
            self._written = snapshot
