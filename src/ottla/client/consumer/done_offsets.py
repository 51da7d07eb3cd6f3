"""Which records of a partition are done, when they are worked on in parallel.

A group commits one offset a partition: everything before it is done. So what may be committed ends
at the first record that is not, however much is done behind it.
"""

from __future__ import annotations

from collections import deque

from ottla.client.values import OffsetAndMetadata


class DoneOffsets:
    """The records of one partition that were begun with, in their order."""

    def __init__(self) -> None:
        self._open: deque[tuple[int, int]] = deque()
        # (offset, leader epoch): begun with, from the first that is not done on.
        self._done: set[int] = set()
        # Behind that first one.
        self._behind: OffsetAndMetadata | None = None
        self.count = 0
        """Records that are not done."""
        self.last = -1
        """The last offset that was begun with."""

    def begin(self, offset: int, leader_epoch: int = -1) -> None:
        """Offsets must rise; they need not be without holes."""
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
        """Everything before it is done; None before the first record."""
        return self._behind

    @property
    def all_done(self) -> bool:
        return not self._open
