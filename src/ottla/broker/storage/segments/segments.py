"""The segments of one log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from ottla.broker.storage.segments.recent_batches import RecentBatches
from ottla.broker.storage.segments.segment import Segment
from ottla.config.topic import TopicConfig
from ottla.runtime.disk import Disk


class Segments(Sequence[Segment]):
    """The segments in the folder of a log, oldest first; the last one is active.

    The list is replaced and never changed: a thread or a reader keeps the one it began with. The
    methods that drop segments leave their files to the caller.
    """

    __slots__ = ("_all", "active", "directory", "disk", "recent")

    def __init__(self, disk: Disk, directory: str, segments: list[Segment]) -> None:
        self.disk = disk
        self.directory = directory
        self._all = segments
        self.active = segments[-1]
        self.recent = RecentBatches()
        """Positions in the active segment."""

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...

    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._all)

    def position_of(self, offset: int) -> int:
        """Return the index of the last segment that does not begin after `offset`."""
        return max(0, bisect_right(self._all, offset, key=_base_offset_of) - 1)

    def since(self, offset: int) -> list[Segment]:
        """Return the segments from the last one on that does not begin after `offset`."""
        return self._all[self.position_of(offset) :]

    def create(self, base_offset: int, config: TopicConfig, now_ms: int) -> Segment:
        """Add an empty segment and its files; it becomes the active one."""
        segment = Segment.create(self.disk, self.directory, base_offset, config, now_ms)
        self._all = [*self._all, segment]
        self.active = segment
        self.recent.clear()
        return segment

    def drop_after(self, offset: int) -> list[Segment]:
        """Drop the segments after the one that contains `offset`, which becomes the active one."""
        kept = self.position_of(offset) + 1
        dropped, self._all = self._all[kept:], self._all[:kept]
        self.active = self._all[-1]
        self.recent.clear()
        return dropped

    def drop_first(self, count: int) -> list[Segment]:
        """Drop the oldest segments, but not the active one."""
        dropped, self._all = self._all[:count], self._all[count:]
        return dropped

    def drop_active(self) -> Segment:
        """Drop the active segment; `create` must follow."""
        dropped, self._all = self._all[-1], self._all[:-1]
        return dropped

    def drop_all(self) -> list[Segment]:
        """Drop every segment; `create` must follow."""
        dropped, self._all = self._all, []
        return dropped

    def replace(self, replaced: Sequence[Segment], cleaned: Segment) -> None:
        """Put a compacted segment in the place of the adjacent segments that it was made from."""
        first = self._all.index(replaced[0])
        self._all = [*self._all[:first], cleaned, *self._all[first + len(replaced) :]]

    def move(self, directory: str) -> None:
        """Use the new path of the folder, which was renamed."""
        self.directory = directory
        for segment in self._all:
            segment.files.move(directory)

    def release(self) -> None:
        """Close what is open; the next use opens it again."""
        for segment in self._all:
            segment.files.release()


def _base_offset_of(segment: Segment) -> int:
    return segment.base_offset
