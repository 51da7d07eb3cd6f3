"""Offsets by partition, kept in one small file a data folder and purpose."""

from __future__ import annotations

import os.path
from collections.abc import Mapping

from ottla.runtime.disk import Disk
from ottla.storage.text_checkpoint import read_checkpoint, write_checkpoint
from ottla.storage.turn import Turn

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

PartitionOffsets = dict[tuple[str, int], int]


class OffsetCheckpoint:
    """One of the four files. Remembers what it wrote, so that writing the same again is free."""

    __slots__ = ("_disk", "_turn", "_written", "path")

    def __init__(self, disk: Disk, directory: str, name: str) -> None:
        self._disk = disk
        self.path = os.path.join(directory, name)
        self._turn = Turn()
        self._written: PartitionOffsets | None = None

    def read(self) -> PartitionOffsets:
        """Empty where the file does not exist; `CorruptFile` where it makes no sense."""
        try:
            if not self._disk.size(self.path):
                return {}  # Kafka makes its checkpoint files before it has anything to write.
            entries = read_checkpoint(self._disk, self.path, columns=3)
        except FileNotFoundError:
            return {}
        return {(topic, int(number)): int(offset) for topic, number, offset in entries}

    def write(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Atomic and durable."""
        snapshot = dict(offsets)
        with self._turn:
            if snapshot == self._written:
                return
            lines = [f"{topic} {number} {offset}" for (topic, number), offset in snapshot.items()]
            write_checkpoint(self._disk, self.path, lines)
            self._written = snapshot
