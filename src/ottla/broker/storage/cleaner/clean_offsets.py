"""The offset up to which each log is clean: `cleaner-offset-checkpoint`, one per log dir."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.storage.dirs.checkpoints import (
    CLEANER_OFFSETS,
    OffsetCheckpoint,
    PartitionOffsets,
)
from ottla.broker.storage.errors import CorruptFile
from ottla.broker.storage.log import Log
from ottla.logs import get_logger
from ottla.runtime.disk import Disk

logger = get_logger("ottla.cleaner")


class CleanOffsets:
    """The offsets are held in memory by the loop's thread; files are read and written in
    threads."""

    def __init__(self, disk: Disk, directories: Iterable[str]) -> None:
        self._files = {path: OffsetCheckpoint(disk, path, CLEANER_OFFSETS) for path in directories}
        self._offsets: PartitionOffsets = {}

    def read(self, directories: Iterable[str]) -> PartitionOffsets:
        """Read the files. A damaged one counts as empty: then more is cleaned than necessary."""
        found: PartitionOffsets = {}
        for path in directories:
            try:
                found |= self._files[path].read()
            except (CorruptFile, OSError) as error:
                logger.warning("Ignoring a checkpoint that cannot be read: %s", error)
        return found

    def adopt(self, found: PartitionOffsets, logs: Iterable[Log]) -> None:
        for log in logs:
            key = (log.topic, log.partition)
            if key in found and key not in self._offsets:
                self._offsets[key] = found[key]

    def get(self, log: Log) -> int | None:
        return self._offsets.get((log.topic, log.partition))

    def set(self, log: Log, offset: int) -> None:
        self._offsets[log.topic, log.partition] = offset

    def cut(self, log: Log) -> None:
        """Lower the clean offset to the end of a truncated log: records appended there are not
        clean."""
        known = self.get(log)
        if known is not None and known > log.end_offset:
            self.set(log, log.end_offset)

    def forget(self, log: Log) -> None:
        self._offsets.pop((log.topic, log.partition), None)

    def of(self, logs: Iterable[Log]) -> PartitionOffsets:
        keys = ((log.topic, log.partition) for log in logs)
        return {key: self._offsets[key] for key in keys if key in self._offsets}

    def write(self, directory: str, offsets: PartitionOffsets) -> None:
        self._files[directory].write(offsets)
