"""Decompresses batches in threads, and bounds the memory that this takes.

A batch of a few kilobytes may decompress to 100 MB, but most decompress to little. Each batch is
therefore tried with a small limit first, several at once. Only batches that exceed it get the full
limit, one at a time. So batches made to be large wait for each other and delay nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.compression import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from ottla.runtime.runtime import Runtime

T = TypeVar("T")

SMALL_BYTES_MAX: Final = 8 * 1024 * 1024
SMALL_AT_ONCE: Final = 4
LARGE_AT_ONCE: Final = 1
WAITING_BYTES_MAX: Final = 256 * 1024 * 1024
"""The most compressed bytes that wait or are being opened in one queue."""
WAIT_S_MAX: Final = 30.0


class OpeningQueue:
    def __init__(self, runtime: Runtime, bytes_max: int, at_once: int) -> None:
        self.bytes_max = bytes_max
        """The most bytes that a batch may decompress to."""
        self._runtime = runtime
        self._free = asyncio.Semaphore(at_once)
        self._waiting_bytes = 0

    async def run(self, size: int, open_batch: Callable[[int], T]) -> T:
        """Run `open_batch(bytes_max)` in a thread. `size` is the size of the compressed batches.

        Raises REQUEST_TIMED_OUT, which clients retry, if too many bytes wait already or the wait
        takes too long.
        """
        if self._waiting_bytes and self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise _too_busy()
        self._waiting_bytes += size
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await self._free.acquire()
        except TimeoutError:
            self._waiting_bytes -= size
            raise _too_busy() from None
        except BaseException:
            self._waiting_bytes -= size
            raise

        def finished(_: object) -> None:
            self._waiting_bytes -= size
            self._free.release()

        # The waiting task may be cancelled, but the thread goes on: its memory counts until it
        # ends.
        opening = asyncio.ensure_future(self._runtime.in_thread(open_batch, self.bytes_max))
        opening.add_done_callback(finished)
        return await asyncio.shield(opening)


class BatchOpener:
    def __init__(self, runtime: Runtime) -> None:
        self.small = OpeningQueue(runtime, SMALL_BYTES_MAX, SMALL_AT_ONCE)
        self.large = OpeningQueue(runtime, DECOMPRESSED_BYTES_MAX, LARGE_AT_ONCE)


def _too_busy() -> KafkaError:
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT, "too many batches that have to be opened are waiting"
    )
