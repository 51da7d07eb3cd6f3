"""Replaces segments by the compacted segment made from them.

The file names and the order of the steps make it safe against a crash at any point:

    prepare   thread   `.cleaned` -> `.swap`, durable. A start that finds any `.cleaned` of it
                       discards it; one that finds all `.swap` completes the replacement
    install   loop     readers use the new segment; nothing happens on disk
    retire    thread   the old files -> `.deleted`, durable; then `.swap` -> the usual names
    finish    loop     the segment object takes its final names

The loop never waits for the disk here; readers that hold a slice of an old file keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

from ottla.broker.storage.errors import LogFailed
from ottla.broker.storage.exclusive import Exclusive
from ottla.broker.storage.names import DELETED_SUFFIX, SWAP_SUFFIX
from ottla.broker.storage.producers.state import snapshot_path
from ottla.broker.storage.segments.segment import Segment

if TYPE_CHECKING:
    from ottla.broker.storage.log import Log


class ReplacementRefused(Exception):
    """The log has changed since the segment was made: truncated, deleted or offline."""


class Stage(Enum):
    PREPARED = "prepared"
    INSTALLED = "installed"
    DONE = "done"
    CANCELLED = "cancelled"


class Replacement:
    """Made by `Log.replace_segments`; the caller runs the steps in their order.

    Any other change of the log's segments must call `settle` before: the replacement is then
    undone, or completed at once.
    """

    def __init__(self, log: Log, cleaned: Segment, replaced: Sequence[Segment]) -> None:
        self._log = log
        self._disk = log.disk
        self._cleaned = cleaned
        self._replaced = list(replaced)
        self._snapshot_paths: list[str] = []
        self._has_final_names = False
        # Steps in a thread and `settle` in the loop exclude each other.
        self._exclusive = Exclusive()
        self.stage = Stage.PREPARED

    def prepare(self) -> None:
        with self._exclusive:
            if self.stage is Stage.PREPARED:
                self._cleaned.files.rename(SWAP_SUFFIX)
                self._cleaned.files.take_ending(SWAP_SUFFIX)
                self._disk.sync_dir(self._log.directory)

    def install(self) -> None:
        log = self._log
        if self.stage is not Stage.PREPARED or log.failure is not None:
            raise ReplacementRefused(f"{log.directory} was changed")
        self._cleaned.files.pin()
        log.segments.replace(self._replaced, self._cleaned)
        for segment in self._replaced[1:]:
            if segment.base_offset in log.producers.snapshots:
                log.producers.snapshots.remove(segment.base_offset)
                self._snapshot_paths.append(snapshot_path(log.directory, segment.base_offset))
        self.stage = Stage.INSTALLED

    def retire(self) -> None:
        with self._exclusive:
            if self.stage is Stage.INSTALLED and not self._has_final_names:
                self._retire()
                self._cleaned.files.rename("")
                self._has_final_names = True

    def _retire(self) -> None:
        paths = []
        for segment in self._replaced:
            paths += segment.files.mark_deleted()
        for path in self._snapshot_paths:
            try:
                self._disk.rename(path, path + DELETED_SUFFIX)
                paths.append(path + DELETED_SUFFIX)
            except FileNotFoundError:
                pass
        self._log.deleted_files.add(paths, self._log.config.file_delete_delay_ms)
        self._disk.sync_dir(self._log.directory)

    def finish(self) -> None:
        if self.stage is Stage.INSTALLED:
            self._cleaned.files.take_ending("")
            self._cleaned.files.release()
            self.stage = Stage.DONE
            self._log.replacement = None
            self._log.flusher.has_removed_names = True

    def settle(self) -> None:
        """Complete or undo the replacement, before the log is changed in another way."""
        if self.stage is Stage.INSTALLED:
            self.retire()
            self.finish()
        elif self.stage is Stage.PREPARED:
            with self._exclusive:
                self._cleaned.files.remove()
                self._disk.sync_dir(self._log.directory)
                self.forget()

    def forget(self) -> None:
        """Give up the replacement without touching its files."""
        if self.stage is Stage.PREPARED:
            self.stage = Stage.CANCELLED
        self._log.replacement = None


def check_replaceable(log: Log, replaced: Sequence[Segment], generation: int) -> None:
    """Raise unless `replaced` are adjacent segments of the log, none of them active, and the log
    was not truncated since `generation`."""
    if log.failure is not None:
        raise LogFailed(log.directory, log.failure)
    if generation != log.generation or log.replacement is not None:
        raise ReplacementRefused(f"{log.directory} was truncated, or is being compacted elsewhere")
    segments = log.segments
    first = segments.index(replaced[0]) if replaced[0] in segments else len(segments)
    if segments[first : first + len(replaced)] != list(replaced) or replaced[-1] is segments.active:
        raise ReplacementRefused(f"{log.directory} does not hold these segments any more")
