"""Files of a log that were renamed to `.deleted` and wait for their removal."""

from __future__ import annotations

import os.path
from typing import NamedTuple

from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk


class _Deletion(NamedTuple):
    due_ms: int
    paths: list[str]


class DeletedFiles:
    """Readers may still use a deleted file by its name: `file.delete.delay.ms` gives them time."""

    __slots__ = ("_clock", "_disk", "_pending")

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._pending: list[_Deletion] = []

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(self, paths: list[str], delay_ms: int) -> None:
        self._pending.append(_Deletion(self._clock.wall_ms() + delay_ms, paths))

    def remove_due(self, now_ms: int) -> int:
        """Remove the files whose delay is over; return their number. May run in a thread."""
        due = [deletion for deletion in self._pending if deletion.due_ms <= now_ms]
        for deletion in due:
            self._pending.remove(deletion)
            for path in deletion.paths:
                try:
                    self._disk.remove(path)
                except FileNotFoundError:
                    pass
        return sum(len(deletion.paths) for deletion in due)

    def move(self, directory: str) -> None:
        """Use the new path of the folder, which was renamed."""
        self._pending = [
            _Deletion(due_ms, [os.path.join(directory, os.path.basename(path)) for path in paths])
            for due_ms, paths in self._pending
        ]

    def clear(self) -> None:
        """Forget the files: the next start removes them, or the removal of the whole folder."""
        self._pending.clear()
