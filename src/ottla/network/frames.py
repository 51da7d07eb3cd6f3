"""Cuts a stream of bytes into frames: four bytes of size, then that many bytes.

Small frames are copied out of a scratch buffer. A large one (a fetch response) gets its own memory
and is received straight into it, since its records are passed on as slices of that memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.buffers import Buffer

SCRATCH_BYTES = 64 << 10
_TLS_RECORD_KINDS = (21, 22)
_TLS_MAJOR = 3


class FrameTooLarge(Exception):
    """The peer announced a frame above the limit, or of negative size."""


class FrameReader:
    """Receive into `space()`, then call `received` with the number of bytes."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._held = 0
        self._large: memoryview | None = None
        self._filled = 0

    def space(self) -> memoryview:
        if self._large is not None:
            return self._large[self._filled :]
        return self._scratch[self._held :]

    def received(self, count: int) -> Iterator[Buffer]:
        """Yield the frames that are complete with these `count` bytes."""
        if self._large is None:
            self._held += count
            yield from self._from_scratch()
            return
        self._filled += count
        if self._filled == len(self._large):
            frame, self._large = self._large, None
            yield frame

    def _from_scratch(self) -> Iterator[Buffer]:
        position, held = 0, self._held
        while held - position >= 4:
            size = int.from_bytes(self._scratch[position : position + 4], "big", signed=True)
            if not 0 <= size <= self._frame_bytes_max:
                raise FrameTooLarge(
                    f"a frame of {size} bytes, limit {self._frame_bytes_max}{_seems(size)}"
                )
            start = position + 4
            if start + size > held:
                self._begin_large(size, self._scratch[start:held])
                return
            position = start + size
            yield bytes(self._scratch[start:position])
        rest = bytes(self._scratch[position:held])
        self._scratch[: len(rest)] = rest
        self._held = len(rest)

    def _begin_large(self, size: int, begun: memoryview) -> None:
        self._large = memoryview(bytearray(size))
        self._filled = len(begun)
        self._large[: self._filled] = begun
        self._held = 0


def _seems(size: int) -> str:
    """Guess from a first word that is no frame size which kind of server sent it."""
    word = size.to_bytes(4, "big", signed=True)
    if word == b"HTTP":
        return "; it is an HTTP server"
    if word[0] in _TLS_RECORD_KINDS and word[1] == _TLS_MAJOR:
        return "; it speaks TLS: set security_protocol to SSL or SASL_SSL"
    return ""
