"""Which leader epoch began at which offset: `leader-epoch-checkpoint` and its content in memory.

The file is text: version 0, the number of entries, then one `epoch start-offset` a line. Appending
never waits for it: what an append adds is written before the recovery point moves past the append,
and until then recovery finds the same epochs in the batches themselves.
"""

from __future__ import annotations

from bisect import bisect_right

from ottla.runtime.disk import Disk
from ottla.storage.text_checkpoint import read_checkpoint, write_checkpoint

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
OFFSET_MAX = 2**63 - 1


class LeaderEpochs:
    """Ascending in both epoch and start offset."""

    __slots__ = ("_entries", "dirty", "latest")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._entries = entries or []
        self.latest = self._entries[-1][0] if self._entries else UNDEFINED_EPOCH
        self.dirty = False

    @classmethod
    def read(cls, disk: Disk, path: str) -> LeaderEpochs:
        """Raises `CorruptFile`, or `FileNotFoundError` for a log that has none yet."""
        epochs = cls()
        for epoch, start_offset in read_checkpoint(disk, path, columns=2):
            epochs.assign(int(epoch), int(start_offset))
        epochs.dirty = False
        return epochs

    def write(self, disk: Disk, path: str) -> None:
        """Durable on return. May run beside a thread that assigns: then `dirty` is set again."""
        self.dirty = False
        write_checkpoint(disk, path, [f"{epoch} {start}" for epoch, start in list(self._entries)])

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` began at `start_offset`. Entries that contradict it are false and go."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"impossible leader epoch {epoch} at offset {start_offset}")
        kept = self._entries
        if kept and kept[-1][0] == epoch and start_offset >= kept[-1][1]:
            return
        count = len(kept)
        while count and (kept[count - 1][0] >= epoch or kept[count - 1][1] >= start_offset):
            count -= 1
        self._replace([*kept[:count], (epoch, start_offset)])

    def _replace(self, entries: list[tuple[int, int]]) -> None:
        self._entries = entries
        self.latest = entries[-1][0] if entries else UNDEFINED_EPOCH
        self.dirty = True

    def end_offset_for(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """(greatest epoch not above `epoch`, where it ended); (-1, -1) where that is unknown."""
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, end_offset
        above = bisect_right(self._entries, epoch, key=_epoch_of)
        if above == len(self._entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if above == 0:
            # All data of that epoch is gone: a follower may go on from where the log begins.
            return epoch, self._entries[0][1]
        return self._entries[above - 1][0], self._entries[above][1]

    def epoch_of_offset(self, offset: int) -> int:
        """The epoch that wrote `offset`, -1 if it is before all that is known."""
        above = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[above - 1][0] if above else UNDEFINED_EPOCH

    def confirm(self, epoch: int, offset: int) -> None:
        """A batch says that `epoch` wrote `offset`: make it so, if it is not."""
        if self.epoch_of_offset(offset) != epoch:
            self.truncate_from_end(offset)
            self.assign(epoch, offset)

    def next_start_after(self, offset: int) -> int:
        """Up to where the epoch of `offset` holds, as far as is known."""
        above = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[above][1] if above < len(self._entries) else OFFSET_MAX

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop epochs that begin at or after `end_offset`."""
        if self._entries and self._entries[-1][1] >= end_offset:
            self._replace([entry for entry in self._entries if entry[1] < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop epochs that ended before `start_offset`; the one in force there now begins there."""
        above = bisect_right(self._entries, start_offset, key=_start_of)
        if above and self._entries[:above] != [(self._entries[above - 1][0], start_offset)]:
            in_force = (self._entries[above - 1][0], start_offset)
            self._replace([in_force, *self._entries[above:]])

    def clear(self) -> None:
        if self._entries:
            self._replace([])


def _epoch_of(entry: tuple[int, int]) -> int:
    return entry[0]


def _start_of(entry: tuple[int, int]) -> int:
    return entry[1]
