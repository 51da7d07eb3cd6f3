"""Counts of a partition's bytes, by which waiting fetches learn how much more they can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.storage.log import Log


class ByteCounts:
    """Bytes since the broker started: appended ones, and those below the high watermark.

    Only the growth of the visible bytes matters: it is what waiting fetches are told.
    """

    __slots__ = ("appended", "transaction_starts", "visible")

    def __init__(self) -> None:
        self.appended = self.visible = 0
        self.transaction_starts: dict[int, int] = {}
        """For the first offset of each open transaction: how many bytes were appended before."""

    def reset(self, log: Log, high_watermark: int) -> None:
        """Count again, because the log was truncated or replaced. Each record above the high
        watermark counts as a byte, as their size is not known."""
        self.appended = self.visible + log.end_offset - high_watermark
        self.transaction_starts = dict.fromkeys(log.producers.ongoing, self.visible)

    def visible_at(self, offset: int, high_watermark: int, end_offset: int) -> int:
        """Return about how many of the appended bytes are below `offset`; exact at the log end."""
        hidden, gained = end_offset - high_watermark, offset - high_watermark
        if gained >= hidden:
            return self.appended
        return self.visible + max(1, (self.appended - self.visible) * gained // hidden)

    def forget_transactions(self, stable_offset: int) -> None:
        """Remove transactions that ended below the last stable offset: they hold no reader back."""
        starts = self.transaction_starts
        while starts and (first := next(iter(starts))) < stable_offset:
            del starts[first]

    @property
    def stable(self) -> int:
        """The bytes below the last stable offset."""
        # The oldest one: earlier ones were removed when the high watermark passed their ends.
        before = next(iter(self.transaction_starts.values()), self.visible)
        return min(before, self.visible)
