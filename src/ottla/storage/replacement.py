"""A compacted segment takes the place of those it was made from.

Safe against a crash at any point, by the names of the files and their order:

    prepare   thread   `.cleaned` -> `.swap`, durable. A start that finds any `.cleaned` of it gives
                       it up; one that finds all `.swap` finishes the replacement
    install   loop     readers find the new segment; nothing happens on disk
    retire    thread   the old files -> `.deleted`, durable; then `.swap` -> the usual names
    finish    loop     the segment learns its names

The loop never waits for the disk here; readers that hold a slice of an old file keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

from ottla.storage.errors import LogFailed
from ottla.storage.names import DELETED_SUFFIX, SWAP_SUFFIX
from ottla.storage.producer_state import snapshot_path
from ottla.storage.segment import Segment
from ottla.storage.turn import Turn

if TYPE_CHECKING:
    from ottla.storage.log_shaping import ShapedLog


class ReplacementRefused(Exception):
    """The log is not what it was when the segment was made: cut, deleted, offline."""


class Stage(Enum):
    PREPARED = "prepared"
    INSTALLED = "installed"
    DONE = "done"
    CANCELLED = "cancelled"


class Replacement:
    """Made by `Log.replace_segments`; the caller goes through the steps in their order.

    Whatever else changes the segments of the log calls `settle` before: the replacement is then
    taken back, or brought to its end at once.
    """

    def __init__(self, log: ShapedLog, cleaned: Segment, replaced: Sequence[Segment]) -> None:
        self._log = log
        self._disk = log._disk
        self._cleaned = cleaned
        self._replaced = list(replaced)
        self._snapshot_paths: list[str] = []
        self._has_final_names = False
        # Steps in a thread and `settle` in the loop exclude each other.
        self._turn = Turn()
        self.stage = Stage.PREPARED

    def prepare(self) -> None:
        with self._turn:
            if self.stage is Stage.PREPARED:
                self._cleaned.rename_files(SWAP_SUFFIX)
                self._cleaned.take_ending(SWAP_SUFFIX)
                self._disk.sync_dir(self._log.directory)

    def install(self) -> None:
        log = self._log
        if self.stage is not Stage.PREPARED or log.failure is not None:
            raise ReplacementRefused(f"{log.directory} was changed")
        self._cleaned.pin()
        segments = log._segments
        first = segments.index(self._replaced[0])
        log._segments = [
            *segments[:first],
            self._cleaned,
            *segments[first + len(self._replaced) :],
        ]
        for segment in self._replaced[1:]:
            if segment.base_offset in log.producers.snapshots:
                log.producers.snapshots.remove(segment.base_offset)
                self._snapshot_paths.append(snapshot_path(log.directory, segment.base_offset))
        self.stage = Stage.INSTALLED

    def retire(self) -> None:
        with self._turn:
            if self.stage is Stage.INSTALLED and not self._has_final_names:
                self._retire()
                self._cleaned.rename_files("")
                self._has_final_names = True

    def _retire(self) -> None:
        paths = []
        for segment in self._replaced:
            paths += segment.mark_deleted()
        for path in self._snapshot_paths:
            try:
                self._disk.rename(path, path + DELETED_SUFFIX)
                paths.append(path + DELETED_SUFFIX)
            except FileNotFoundError:
                pass
        self._log._remove_later(paths)
        self._disk.sync_dir(self._log.directory)

    def finish(self) -> None:
        if self.stage is Stage.INSTALLED:
            self._cleaned.take_ending("")
            self._cleaned.release()
            self.stage = Stage.DONE
            self._log._replacement = None
            self._log._has_removed_names = True

    def settle(self) -> None:
        """Come to an end, one or the other, before the log is changed in another way."""
        if self.stage is Stage.INSTALLED:
            self.retire()
            self.finish()
        elif self.stage is Stage.PREPARED:
            with self._turn:
                self._cleaned.remove_files()
                self._disk.sync_dir(self._log.directory)
                self.forget()

    def forget(self) -> None:
        """The files are out of reach."""
        if self.stage is Stage.PREPARED:
            self.stage = Stage.CANCELLED
        self._log._replacement = None


def check_replaceable(log: ShapedLog, replaced: Sequence[Segment], generation: int) -> None:
    """Raise unless `replaced` are neighbours in the log, none of them active, and nothing was cut
    since `generation`."""
    if log.failure is not None:
        raise LogFailed(log.directory, log.failure)
    if generation != log.generation or log._replacement is not None:
        raise ReplacementRefused(f"{log.directory} was truncated, or is being compacted elsewhere")
    segments = log._segments
    first = segments.index(replaced[0]) if replaced[0] in segments else len(segments)
    if segments[first : first + len(replaced)] != list(replaced) or replaced[-1] is log._active:
        raise ReplacementRefused(f"{log.directory} does not hold these segments any more")
