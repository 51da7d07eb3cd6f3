"""A simulated file's bytes: what programs see (the page cache) and what the platter holds.

Model of a power loss: every write and truncate since the last sync is an operation. For each file
chance picks how much of them reached the platter: nothing, everything, a prefix of the operations
with the last one cut at any byte, or a scatter, where each write is kept, lost, cut, or kept in
some of its 512-byte sectors only. Where a lost write had grown the file and a later one survived,
zeros are read in the hole. A truncate is journaled by the file system together with the size, so
if one is lost, whatever came after it is lost too. Stores through a mapping are found page by page
and become writes of their pages.
"""

from __future__ import annotations

import random
from typing import NamedTuple

SECTOR_BYTES = 512
PAGE_BYTES = 4096


class Write(NamedTuple):
    offset: int
    data: bytes


class Truncate(NamedTuple):
    size: int


Operation = Write | Truncate


class Inode:
    """Bytes below `len(_head)` are mapped into memory and stay put; the rest is `_tail`."""

    def __init__(self, wall_ms: int) -> None:
        self.size = 0
        self.modified_ms = wall_ms
        self.durable = bytearray()
        self.pending: list[Operation] = []
        self.pages: set[int] = set()
        """Numbers of the pages that ever got bytes: they count as used space on the volume."""
        self._head = bytearray()
        self._head_seen = bytearray()
        self._tail = bytearray()
        self._mappings = 0

    def read(self, offset: int, length: int) -> bytes:
        end = min(offset + length, self.size)
        if offset >= end:
            return b""
        split = len(self._head)
        if offset >= split:
            return bytes(self._tail[offset - split : end - split])
        return bytes(self._head[offset:end]) + bytes(self._tail[: max(0, end - split)])

    def write(self, offset: int, data: bytes) -> None:
        if not data:
            return
        self._put(offset, data)
        self.pending.append(Write(offset, data))
        self.pages.update(range(offset // PAGE_BYTES, (offset + len(data) - 1) // PAGE_BYTES + 1))

    def _put(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        if end > self.size:
            self._resize(end)
        split = len(self._head)
        below = data[: max(0, split - offset)]
        if below:
            self._head[offset : offset + len(below)] = below
            self._head_seen[offset : offset + len(below)] = below
        if len(below) < len(data):
            start = max(0, offset - split)
            self._tail[start : end - split] = data[len(below) :]

    def truncate(self, size: int) -> None:
        self.absorb_mapped()
        self._resize(size)
        self.pending.append(Truncate(size))
        self.pages = {page for page in self.pages if page * PAGE_BYTES < size}

    def _resize(self, size: int) -> None:
        split = len(self._head)
        if size < split:
            self._head[size:] = bytes(split - size)
            self._head_seen[size:] = bytes(split - size)
        beyond = max(0, size - split)
        if beyond < len(self._tail):
            del self._tail[beyond:]
        else:
            self._tail.extend(bytes(beyond - len(self._tail)))
        self.size = size

    def map(self, size: int) -> memoryview:
        if size > self.size:
            raise ValueError(f"mmap length {size} is greater than the file's {self.size} bytes")
        if self._mappings == 0:
            whole = self.read(0, self.size)
            self._head, self._tail = bytearray(whole[:size]), bytearray(whole[size:])
            self._head_seen = bytearray(self._head)
        elif size > len(self._head):
            raise ValueError("the simulation can map a file again only within its first mapping")
        self._mappings += 1
        return memoryview(self._head)[:size]

    def unmap(self) -> None:
        self._mappings -= 1
        if self._mappings == 0:
            self._drop_mappings()

    def _drop_mappings(self) -> None:
        self.absorb_mapped()
        self._tail = bytearray(self.read(0, self.size))
        self._head, self._head_seen = bytearray(), bytearray()
        self._mappings = 0

    def absorb_mapped(self) -> None:
        """Turn what was stored through the mapping since the last call into pending writes."""
        limit = min(len(self._head), self.size)
        if self._head == self._head_seen:
            return
        for start in range(0, limit, PAGE_BYTES):
            page = bytes(self._head[start : min(start + PAGE_BYTES, limit)])
            if page != self._head_seen[start : start + len(page)]:
                self.pending.append(Write(start, page))
                self._head_seen[start : start + len(page)] = page

    def sync(self) -> None:
        self.absorb_mapped()
        for operation in self.pending:
            _apply(self.durable, operation)
        self.pending.clear()

    def fail_sync(self, chance: random.Random) -> None:
        """Drop some pending writes: Linux marks pages clean though writing them failed, so they
        stay readable but are never retried."""
        self.absorb_mapped()
        self.pending = [operation for operation in self.pending if chance.random() < 0.5]

    def process_killed(self) -> None:
        """Drop the mappings. The page cache belongs to the machine and stays."""
        if self._mappings:
            self._drop_mappings()

    def power_loss(self, chance: random.Random) -> None:
        self.process_killed()
        for operation in survivors(self.pending, chance):
            _apply(self.durable, operation)
        self.pending.clear()
        self._tail = bytearray(self.durable)
        self.size = len(self.durable)


def _apply(content: bytearray, operation: Operation) -> None:
    if isinstance(operation, Truncate):
        missing = operation.size - len(content)
        if missing > 0:
            content.extend(bytes(missing))
        else:
            del content[operation.size :]
        return
    offset, data = operation
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def survivors(pending: list[Operation], chance: random.Random) -> list[Operation]:
    """Return the unsynced operations, or parts of them, that a power loss leaves on the platter."""
    fate = chance.choice(("nothing", "everything", "prefix", "prefix", "scatter", "scatter"))
    if fate == "nothing" or not pending:
        return []
    if fate == "everything":
        return list(pending)
    if fate == "prefix":
        kept = chance.randrange(len(pending))
        return pending[:kept] + _cut(pending[kept], chance)
    return _scatter(pending, chance)


def _scatter(pending: list[Operation], chance: random.Random) -> list[Operation]:
    kept: list[Operation] = []
    for operation in pending:
        fate = chance.choice(("keep", "lose", "cut", "sectors"))
        if fate == "keep":
            kept.append(operation)
        elif isinstance(operation, Truncate):
            return kept
        elif fate == "cut":
            kept += _cut(operation, chance)
        elif fate == "sectors":
            kept += [part for part in _sectors(operation) if chance.random() < 0.5]
    return kept


def _cut(operation: Operation, chance: random.Random) -> list[Operation]:
    if isinstance(operation, Truncate):
        return []
    length = chance.randrange(len(operation.data))
    return [Write(operation.offset, operation.data[:length])] if length else []


def _sectors(write: Write) -> list[Write]:
    parts = []
    start, end = write.offset, write.offset + len(write.data)
    while start < end:
        stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
        parts.append(Write(start, write.data[start - write.offset : stop - write.offset]))
        start = stop
    return parts
