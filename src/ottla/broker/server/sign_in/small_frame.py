"""A frame of a client that has not signed in: read exactly, and in memory of the size that came."""

from __future__ import annotations

from typing import Final

from ottla.broker.server.connections.frames import TLS_HANDSHAKE

_SIZE_BYTES: Final = 4
_GROWTH_BYTES_MAX: Final = 16 * 1024


class BadSize(Exception):
    """The frame is larger than the listener allows."""

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(f"{size} bytes, at most {size_max} are allowed")
        self.is_tls = size >> 16 == TLS_HANDSHAKE
        """True if these bytes are the begin of a TLS handshake."""


class SmallFrame:
    """Receive into `room`, then call `fill`. Nothing beyond the frame is read, and memory is taken
    as bytes arrive."""

    __slots__ = ("_buffer", "_filled", "_needed", "_size_max")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._begin()

    def _begin(self) -> None:
        self._needed: int | None = None
        self._buffer = bytearray(_SIZE_BYTES)
        self._filled = 0

    @property
    def buffered(self) -> int:
        """The bytes that it holds in memory."""
        return len(self._buffer)

    @property
    def room(self) -> memoryview:
        return memoryview(self._buffer)[self._filled :]

    def fill(self, count: int) -> bytes | None:
        """Take `count` more bytes; returns the frame when it is whole. Raises `BadSize`."""
        self._filled += count
        if self._filled < len(self._buffer):
            return None
        if self._needed is None:
            self._needed = int.from_bytes(self._buffer, "big", signed=True)
            if not 0 <= self._needed <= self._size_max:
                raise BadSize(self._needed, self._size_max)
            self._buffer, self._filled = bytearray(), 0
        if self._filled == self._needed:
            whole = bytes(self._buffer)
            self._begin()
            return whole
        growth = min(self._needed - self._filled, max(self._filled, _GROWTH_BYTES_MAX))
        self._buffer = self._buffer + bytes(growth)
        return None
