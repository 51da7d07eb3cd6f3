"""Frames: the size of a request, then the request; and those that arrive in several reads."""

from __future__ import annotations

import struct
from typing import Final, cast

from ottla.broker.server.dispatch import carries_records

FRAME_SIZE: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")

PARTIAL_FRAME_BYTES_START: Final = 64 * 1024
PARTIAL_FRAME_GROWTH_BYTES_MAX: Final = 1024 * 1024
PLAIN_REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest request without records. It is copied and decoded, which costs far more than
receiving it."""
REQUEST_BYTES_MIN: Final = 8
TLS_HANDSHAKE: Final = 0x1603
"""The first two bytes of a TLS client: a handshake record of TLS 1.x."""


class BadFrame(Exception):
    """The peer violates the protocol: the connection must be closed."""


def bad_size(size: int, size_max: int) -> BadFrame:
    if size >> 16 == TLS_HANDSHAKE:
        return BadFrame(
            "a TLS handshake on a listener without TLS: the client's security.protocol must be "
            "that of the listener"
        )
    return BadFrame(
        f"a frame of {size} bytes; between {REQUEST_BYTES_MIN} and {size_max} are allowed"
    )


class PartialFrame:
    """A frame that did not arrive whole. Its buffer grows with the bytes that arrive, so a client
    cannot make the broker reserve memory for bytes it does not send."""

    __slots__ = ("_filled", "_needed", "_size_max", "_view")

    def __init__(self, start: memoryview, size_max: int) -> None:
        """`start` is what has arrived, at least one byte; its size is checked if it is there."""
        filled = len(start)
        if filled < FRAME_SIZE.size:
            needed = capacity = FRAME_SIZE.size
        else:
            needed = FRAME_SIZE.size + int(FRAME_SIZE.unpack_from(start)[0])
            capacity = min(needed, max(2 * filled, PARTIAL_FRAME_BYTES_START))
        self._view = memoryview(bytearray(capacity))
        self._view[:filled] = start
        self._filled = filled
        self._needed = needed
        self._size_max = size_max

    @property
    def room(self) -> memoryview:
        """Where the next bytes go."""
        return self._view[self._filled :]

    def fill(self, count: int) -> memoryview | None:
        """Take `count` more bytes; returns the frame when it is whole. Raises `BadFrame`."""
        self._filled += count
        filled = self._filled
        if filled < len(self._view):
            return None
        if filled == self._needed == FRAME_SIZE.size:
            (size,) = FRAME_SIZE.unpack_from(self._view)
            if size < REQUEST_BYTES_MIN or size > self._size_max:
                raise bad_size(size, self._size_max)
            self._needed = FRAME_SIZE.size + size
        if filled == self._needed:
            return self._view
        if self._needed - FRAME_SIZE.size > PLAIN_REQUEST_BYTES_MAX:
            self._check_carries_records()
        self._grow()
        return None

    def _grow(self) -> None:
        wanted = max(self._filled, PARTIAL_FRAME_BYTES_START)
        growth = min(self._needed - self._filled, wanted, PARTIAL_FRAME_GROWTH_BYTES_MAX)
        # The bytes stay where they are, or the OS moves their pages: even 50 MB are not copied.
        buffer = cast(bytearray, self._view.obj)
        self._view.release()
        buffer.extend(bytes(growth))
        self._view = memoryview(buffer)

    def _check_carries_records(self) -> None:
        (key,) = _API_KEY.unpack_from(self._view, FRAME_SIZE.size)
        if not carries_records(key):
            raise BadFrame(
                f"a request of {self._needed - FRAME_SIZE.size} bytes of API {key}; "
                f"without records {PLAIN_REQUEST_BYTES_MAX} are allowed"
            )
