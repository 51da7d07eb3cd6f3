"""The start offset of each leader epoch: `leader-epoch-checkpoint` and its content in memory.

The file is text: version 0, the number of entries, then one `epoch start-offset` per line. Appends
never wait for it: new entries are written before the recovery point passes the append, and until
then recovery finds the same epochs in the batches themselves.
"""

from __future__ import annotations

from bisect import bisect_right

from ottla.broker.storage.dirs.text_checkpoint import read_checkpoint, write_checkpoint
from ottla.runtime.disk import Disk

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
OFFSET_MAX = 2**63 - 1


class LeaderEpochs:
    """Entries that ascend in both epoch and start offset."""

    __slots__ = ("_entries", "dirty", "latest")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._entries = entries or []
        self.latest = self._entries[-1][0] if self._entries else UNDEFINED_EPOCH
        self.dirty = False

    @classmethod
    def read(cls, disk: Disk, path: str) -> LeaderEpochs:
        """Read the file; raises `CorruptFile`, or `FileNotFoundError` for a log that has none
        yet."""
        epochs = cls()
        for epoch, start_offset in read_checkpoint(disk, path, columns=2):
            epochs.assign(int(epoch), int(start_offset))
        epochs.dirty = False
        return epochs

    def write(self, disk: Disk, path: str) -> None:
        """Write the file durably. May run beside a thread that assigns: then `dirty` is set
        again."""
        self.dirty = False
        write_checkpoint(disk, path, [f"{epoch} {start}" for epoch, start in list(self._entries)])

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add that `epoch` began at `start_offset`. Entries that contradict it are removed."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"impossible leader epoch {epoch} at offset {start_offset}")
        kept = self._entries
        if kept and kept[-1][0] == epoch and start_offset >= kept[-1][1]:
            return
        count = len(kept)
        while count and (kept[count - 1][0] >= epoch or kept[count - 1][1] >= start_offset):
            count -= 1
        self._set_entries([*kept[:count], (epoch, start_offset)])

    def _set_entries(self, entries: list[tuple[int, int]]) -> None:
        self._entries = entries
        self.latest = entries[-1][0] if entries else UNDEFINED_EPOCH
        self.dirty = True

    def end_offset_for(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """Return (greatest epoch not above `epoch`, its end offset); (-1, -1) if that is
        unknown."""
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, end_offset
        above = bisect_right(self._entries, epoch, key=_epoch_of)
        if above == len(self._entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if above == 0:
            # All data of that epoch is gone: a follower may continue at the first known epoch.
            return epoch, self._entries[0][1]
        return self._entries[above - 1][0], self._entries[above][1]

    def epoch_of_offset(self, offset: int) -> int:
        """Return the epoch that wrote `offset`; -1 if it is before all known epochs."""
        above = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[above - 1][0] if above else UNDEFINED_EPOCH

    def confirm(self, epoch: int, offset: int, since: int) -> None:
        """Correct the entries if a batch shows that `epoch` wrote `offset`. The batch before ends
        at `since`: nothing in between is left, so the epoch may have begun there."""
        if self.epoch_of_offset(offset) != epoch:
            self.truncate_from_end(offset)
            self.assign(epoch, since)

    def next_start_after(self, offset: int) -> int:
        """Return the offset at which the epoch after that of `offset` starts, as far as is
        known."""
        above = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[above][1] if above < len(self._entries) else OFFSET_MAX

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that begin at or after `end_offset`."""
        if self._entries and self._entries[-1][1] >= end_offset:
            self._set_entries([entry for entry in self._entries if entry[1] < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that ended before `start_offset`; the one in force there now begins
        there."""
        above = bisect_right(self._entries, start_offset, key=_start_of)
        if above and self._entries[:above] != [(self._entries[above - 1][0], start_offset)]:
            in_force = (self._entries[above - 1][0], start_offset)
            self._set_entries([in_force, *self._entries[above:]])

    def take_over(self, other: LeaderEpochs) -> None:
        """Use the epochs of another log."""
        self._set_entries(other.entries)

    def clear(self) -> None:
        if self._entries:
            self._set_entries([])


def _epoch_of(entry: tuple[int, int]) -> int:
    return entry[0]


def _start_of(entry: tuple[int, int]) -> int:
    return entry[1]
