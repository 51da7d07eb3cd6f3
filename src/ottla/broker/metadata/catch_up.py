"""Whether a node has caught up with what was committed when it first heard of a leader."""

from __future__ import annotations

import asyncio


class CatchUp:
    def __init__(self) -> None:
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._target: int | None = None
        """The high watermark that a leader told first; None if none was heard of."""

    async def wait(self) -> None:
        await asyncio.shield(self._done)

    def heard(self, high_watermark: int, next_offset: int) -> None:
        """Take the high watermark of a leader; `next_offset` is the first one not in the image."""
        if self._target is None:
            self._target = high_watermark
            self.reached(next_offset)

    def reached(self, next_offset: int) -> None:
        """The image has all records below `next_offset`."""
        if self._target is not None and next_offset >= self._target:
            self.complete()

    def complete(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)
