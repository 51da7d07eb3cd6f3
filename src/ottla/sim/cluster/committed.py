"""The committed records of every partition and of the metadata, collected during a run.

A record below the high watermark of a leader is committed for good. A node that later has another
batch at its offset, or leads without it, breaks the one promise that a replicated log makes.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.broker.storage.log import Log
from ottla.broker.storage.segments.segment import Segment
from ottla.sim.disk import SimDisk, SimFile
from ottla.sim.history import Violation

_FRONT = struct.Struct(">qiibIhi")
_LENGTH_END = 12


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    """0 if the log is compacted: each replica compacts its own log, so what is left of a batch has
    another checksum on each."""


class _Place(NamedTuple):
    """How far one process's log was compared with the committed one."""

    offset: int
    generation: int
    segment: Segment | None
    position: int


@dataclass
class CommittedLog:
    name: str
    end: int = 0
    """Everything before this offset is committed."""
    batches: dict[int, Batch] = field(default_factory=dict)
    """Base offset -> batch."""
    _places: dict[str, _Place] = field(default_factory=dict)

    def committed(self, who: str, log: Log, high_watermark: int) -> None:
        """Record that a leader has the log committed up to `high_watermark`."""
        self.agree(who, log, high_watermark)
        self.end = max(self.end, high_watermark)

    def agree(self, who: str, log: Log, end: int) -> None:
        """Check that the batches before `end` are the same as on all other nodes."""
        for batch in self._fresh(who, log, end):
            known = self.batches.setdefault(batch.base_offset, batch)
            if known != batch:
                raise Violation(f"{self.name}: {who} has {batch} committed, others have {known}")

    def complete(self, who: str, log: Log) -> None:
        """Check that a new leader has everything that was committed before."""
        if log.end_offset < self.end:
            raise Violation(
                f"{self.name}: {who} leads with a log that ends at {log.end_offset}, though "
                f"everything before {self.end} is committed"
            )
        self.agree(who, log, self.end)

    def _fresh(self, who: str, log: Log, end: int) -> Iterator[Batch]:
        place = self._places.get(who)
        if place is None or place.generation != log.generation:
            place = _Place(log.log_start_offset, log.generation, None, 0)
        segments = list(log.segments)
        end_offset = log.end_offset
        while place.offset < min(end, end_offset):
            index = bisect_right([segment.base_offset for segment in segments], place.offset) - 1
            if index < 0:
                place = place._replace(offset=segments[0].base_offset)
                continue
            segment = segments[index]
            # This is the next segment, or one that was compacted in between.
            if place.segment is not segment:
                place = place._replace(segment=segment, position=0)
            if place.position >= segment.size:
                if index + 1 == len(segments):
                    break
                place = place._replace(offset=segments[index + 1].base_offset)
                continue
            file = _file_of(segment)
            if file is None and log.failure is not None:
                break  # the log failed after a rename, before it knew the new name
            assert file is not None, f"{who} has no {segment.files.path}"
            batch, size = _batch_at(file, place.position)
            if log.config.compact:
                batch = batch._replace(crc=0)
            if batch.last_offset >= place.offset and batch.last_offset < end:
                yield batch
            elif batch.last_offset >= end:
                break
            place = place._replace(
                offset=max(place.offset, batch.last_offset + 1), position=place.position + size
            )
        self._places[who] = place


def _file_of(segment: Segment) -> SimFile | None:
    """Return the segment's file. `files.file` would open it for the node, which may have closed it
    because its disk fails, and the failed open would count as an error of the node."""
    disk = segment.files.disk
    assert isinstance(disk, SimDisk)
    file = segment.files.opened or disk.peek(segment.files.path)
    assert file is None or isinstance(file, SimFile)
    return file


def _batch_at(file: SimFile, position: int) -> tuple[Batch, int]:
    """Read the header from the simulated disk itself, past all injected faults."""
    base, length, epoch, _, crc, _, delta = _FRONT.unpack(file.peek(position, _FRONT.size))
    return Batch(base, base + delta, epoch, crc), _LENGTH_END + length
