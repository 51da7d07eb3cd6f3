"""Where the last appended batches lie, so that a reader at the tail costs no lookup and no read."""

from __future__ import annotations

GENERATION_ENTRIES_MAX = 64


class RecentBatches:
    """(position, size) by base offset for between 64 and 128 batches of the active segment.

    Two generations: when the young one is full it becomes the old one. That bounds the memory
    without any bookkeeping for single entries.
    """

    __slots__ = ("_old", "_young")

    def __init__(self) -> None:
        self._young: dict[int, tuple[int, int]] = {}
        self._old: dict[int, tuple[int, int]] = {}

    def add(self, base_offset: int, position: int, size: int) -> None:
        young = self._young
        if len(young) >= GENERATION_ENTRIES_MAX:
            self._old = young
            young = self._young = {}
        young[base_offset] = (position, size)

    def get(self, base_offset: int) -> tuple[int, int] | None:
        return self._young.get(base_offset) or self._old.get(base_offset)

    def clear(self) -> None:
        self._young = {}
        self._old = {}
