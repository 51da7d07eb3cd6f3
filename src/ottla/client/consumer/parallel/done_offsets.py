"""Tracks which records of a partition are finished when they are processed in parallel.

A group commits one offset per partition, and everything before it must be finished. So the
committable offset is that of the first unfinished record, even if later ones are finished.
"""

from __future__ import annotations

from collections import deque

from ottla.client.values import OffsetAndMetadata


class DoneOffsets:
    """The records of one partition whose processing has begun, in order."""

    def __init__(self) -> None:
        self._open: deque[tuple[int, int]] = deque()
        # (offset, leader epoch) of begun records, from the first unfinished one on.
        self._done: set[int] = set()
        # Finished offsets after that first unfinished one.
        self._behind: OffsetAndMetadata | None = None
        self.count = 0
        """Number of unfinished records."""
        self.last = -1
        """The last offset that was begun."""

    def begin(self, offset: int, leader_epoch: int = -1) -> None:
        """Note that a record has begun. Offsets must rise, but may have gaps."""
        if self._behind is None:
            self._behind = OffsetAndMetadata(offset, "", -1)
        self._open.append((offset, leader_epoch))
        self.last = offset
        self.count += 1

    def finish(self, offset: int) -> None:
        self._done.add(offset)
        self.count -= 1
        while self._open and self._open[0][0] in self._done:
            first, leader_epoch = self._open.popleft()
            self._done.discard(first)
            self._behind = OffsetAndMetadata(first + 1, "", leader_epoch)

    @property
    def committable(self) -> OffsetAndMetadata | None:
        """The offset before which everything is finished; None before the first record."""
        return self._behind

    @property
    def all_done(self) -> bool:
        return not self._open
