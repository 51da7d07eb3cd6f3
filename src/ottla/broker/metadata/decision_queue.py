"""Decisions of this node whose records are appended but not yet committed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import KafkaError

UNCOMMITTED_MAX = 1_000
"""The most decisions that wait for a majority; further ones wait before they are made."""


class Entry(NamedTuple):
    offset: int
    """The offset of the decision's last record. The decision is committed when the high watermark
    is above this offset."""
    image: MetadataImage
    delta: MetadataDelta
    size: int
    waiter: asyncio.Future[None]


class DecisionQueue:
    """Bounded: take `room` before a decision; the decision's end releases it."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._room = asyncio.Semaphore(UNCOMMITTED_MAX)

    def __len__(self) -> int:
        return len(self._entries)

    async def take_room(self) -> None:
        await self._room.acquire()

    def give_back_room(self) -> None:
        """The decision was not made."""
        self._room.release()

    def put(
        self, offset: int, image: MetadataImage, delta: MetadataDelta, size: int
    ) -> asyncio.Future[None]:
        """Add a decision; return the future that resolves when it is published."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._entries.append(Entry(offset, image, delta, size, waiter))
        return waiter

    def take_committed(self, high_watermark: int) -> Iterator[Entry]:
        while self._entries and self._entries[0].offset < high_watermark:
            self._room.release()
            yield self._entries.popleft()

    def fail(self, error: KafkaError) -> None:
        """Fail all decisions, whose records may be committed nevertheless."""
        waiting, self._entries = self._entries, deque()
        for entry in waiting:
            self._room.release()
            if not entry.waiter.done():
                entry.waiter.set_exception(error)

    async def wait_until_empty(self, timeout_s: float) -> None:
        if self._entries:
            await asyncio.wait([self._entries[-1].waiter], timeout=timeout_s)
