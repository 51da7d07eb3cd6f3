"""The sets of voters and levels of `kraft.version` along the log.

The latest of them counts as soon as it is in the log, committed or not. A truncation undoes it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

from ottla.broker.raft.ids import ReplicaKey
from ottla.broker.raft.log_view import LogView
from ottla.broker.raft.voters.voters import VoterSet
from ottla.protocol.control_records.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.control_records.voters_record import VotersRecord

T = TypeVar("T")


class _Timeline(Generic[T]):
    """Values by the offset from which on they count."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._values: list[T] = []

    def add(self, offset: int, value: T) -> None:
        self.forget_from(offset)
        self._offsets.append(offset)
        self._values.append(value)

    def forget_from(self, offset: int) -> None:
        while self._offsets and self._offsets[-1] >= offset:
            self._offsets.pop()
            self._values.pop()

    def forget_before(self, offset: int) -> None:
        """Drop values that were replaced at or before this offset."""
        stale = max(0, bisect_right(self._offsets, offset) - 1)
        del self._offsets[:stale], self._values[:stale]

    def items(self) -> list[tuple[int, T]]:
        return list(zip(self._offsets, self._values, strict=True))

    def at(self, offset: int) -> tuple[int, T] | None:
        """Return the value that counted at this offset, and the offset it came from."""
        index = bisect_right(self._offsets, offset) - 1
        return (self._offsets[index], self._values[index]) if index >= 0 else None

    def since(self, offset: int) -> list[T]:
        """Return the value that counted at this offset, if any, and those after it."""
        return self._values[max(0, bisect_right(self._offsets, offset) - 1) :]

    def last(self) -> tuple[int, T] | None:
        return (self._offsets[-1], self._values[-1]) if self._offsets else None


class VoterHistory:
    def __init__(self, static_voters: VoterSet, log: LogView) -> None:
        self._static = static_voters
        self._log = log
        self._voters: _Timeline[VoterSet] = _Timeline()
        self._versions: _Timeline[int] = _Timeline()
        self._committed_to = 0
        self._read_to = -1
        self.catch_up()

    @property
    def voters(self) -> VoterSet:
        last = self._voters.last()
        return last[1] if last else self._static

    @property
    def voters_offset(self) -> int | None:
        """The offset of the latest voters in the log; -1 in the bootstrap snapshot, None if
        nowhere."""
        last = self._voters.last()
        return last[0] if last else None

    @property
    def kraft_version(self) -> int:
        last = self._versions.last()
        return last[1] if last else 0

    @property
    def can_change(self) -> bool:
        """True if voters can be added and removed."""
        return self.kraft_version >= 1

    def may_stand(self, key: ReplicaKey) -> bool:
        """True if it is a voter, or its removal is not known to be committed.

        A leader that removes itself may be lost before any other node has that record. Its log is
        then the longest, so it votes for none of the others. If they need its vote for a majority
        of the voters they know, only it can be elected. Kafka would wait for ever.
        """
        return any(
            voters.includes(key) for voters in self._voters.since(self._committed_to - 1)
        ) or (self._voters.last() is None and self._static.includes(key))

    def sets(self) -> list[tuple[int, VoterSet]]:
        """Return all sets in the log by offset, and the one before them from a snapshot."""
        return self._voters.items()

    def committed(self, offset: int) -> None:
        self._committed_to = max(self._committed_to, offset)

    def voters_at(self, offset: int) -> VoterSet:
        """Return the voters after the record at this offset, for a snapshot that ends behind it."""
        found = self._voters.at(offset)
        return found[1] if found else self._static

    def kraft_version_at(self, offset: int) -> int:
        found = self._versions.at(offset)
        return found[1] if found else 0

    def catch_up(self) -> None:
        """Read the control records that were appended, or came with a snapshot, since last time."""
        for offset, record in self._log.control_records(self._read_to):
            if isinstance(record, VotersRecord):
                self._voters.add(offset, VoterSet.from_record(record))
            elif isinstance(record, KRaftVersionRecord):
                self._versions.add(offset, record.k_raft_version)
        self._read_to = self._log.end.offset
        before_start = self._log.start_offset - 1
        self._voters.forget_before(before_start)
        self._versions.forget_before(before_start)

    def restart(self) -> None:
        """Start again with a new log, which begins with a snapshot."""
        self.truncate(-1)
        self.catch_up()

    def skip_to_end(self) -> None:
        """Skip appended records that include no control records."""
        self._read_to = self._log.end.offset

    def truncate(self, offset: int) -> None:
        self._voters.forget_from(offset)
        self._versions.forget_from(offset)
        self._read_to = min(self._read_to, offset)
