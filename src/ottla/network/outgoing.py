"""Sends bytes, and keeps those that the kernel has no room for yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.buffers import Buffer
from ottla.counters import Counter
from ottla.runtime.network import Socket


class Outgoing:
    def __init__(
        self, socket: Socket, sent_bytes: Counter, failed: Callable[[OSError], None]
    ) -> None:
        self._socket = socket
        self._sent_bytes = sent_bytes
        self._failed = failed
        self._unsent: list[Buffer] = []
        self._drained: asyncio.Future[None] | None = None

    def __bool__(self) -> bool:
        """True if bytes are left to send."""
        return bool(self._unsent)

    def push(self, frame: list[Buffer]) -> None:
        if self._unsent:
            self._unsent += frame
        else:
            self._unsent = frame
            self._flush()

    def drop(self) -> None:
        self._unsent.clear()
        self._wake()

    async def drained(self) -> None:
        """Wait until the kernel has taken every byte, or the connection has failed."""
        if self._unsent:
            if self._drained is None or self._drained.done():
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def _flush(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent)
                self._sent_bytes.value += sent
                self._unsent = _after(self._unsent, sent)
        except BlockingIOError:
            self._socket.on_writable(self._flush)
            return
        except OSError as error:
            self._failed(error)
            return
        self._socket.on_writable(None)
        self._wake()

    def _wake(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)


def _after(buffers: list[Buffer], sent: int) -> list[Buffer]:
    """Return what is left of `buffers` after their first `sent` bytes."""
    for index, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [memoryview(buffer)[sent:], *buffers[index + 1 :]]
        sent -= len(buffer)
    return []
