"""Answers on their way to the socket: bytes from memory in one packet, records from their files."""

from __future__ import annotations

import errno
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.buffers import Buffer
from ottla.runtime.disk import FileSlice

if TYPE_CHECKING:
    from ottla.runtime.network import Socket

_SIZE_AND_CORRELATION: Final = struct.Struct(">ii")
_SIZE_AND_CORRELATION_FLEXIBLE: Final = struct.Struct(">iix")

GATHERED_BUFFERS_MAX: Final = 64
COPIED_BYTES_MAX: Final = 16 * 1024
"""Records up to this size are read and are sent with the rest of the answer in one packet: for a
few kilobytes that costs less than a `sendfile` between two sends, and wakes the client once."""
DISK_ERRORS: Final = frozenset({errno.EIO, errno.ESTALE, errno.ENODATA, errno.EUCLEAN})
"""The errors of `sendfile` for which the file is at fault and not the client."""


class Outgoing:
    __slots__ = ("_on_file_failed", "_socket", "chunks", "unsent_bytes")

    def __init__(self, socket: Socket, on_file_failed: Callable[[str, OSError], object]) -> None:
        self._socket = socket
        self._on_file_failed = on_file_failed
        self.chunks: deque[Any] = deque()
        self.unsent_bytes = 0
        """The bytes that were added since the last attempt to send."""

    def add(self, correlation_id: int, chunks: list[Any], flexible: bool) -> None:
        size = 4 + flexible
        for at, chunk in enumerate(chunks):
            size += len(chunk)
            if isinstance(chunk, FileSlice) and chunk.count <= COPIED_BYTES_MAX:
                chunks[at] = _copied(chunk)
        self.unsent_bytes += size
        start = _SIZE_AND_CORRELATION_FLEXIBLE if flexible else _SIZE_AND_CORRELATION
        self.chunks.append(start.pack(size, correlation_id))
        self.chunks.extend(chunks)

    def send(self) -> bool:
        """Send as much as the socket takes; True if nothing is left. Raises `OSError` if the
        connection is lost, or a file cannot be read."""
        chunks = self.chunks
        self.unsent_bytes = 0
        try:
            while chunks:
                if isinstance(chunks[0], FileSlice):
                    done = self._send_file(chunks[0])
                else:
                    done = self._send_buffers(self._gather())
                if not done:
                    return False
        except BlockingIOError:
            return False
        return True

    def _gather(self) -> list[Buffer]:
        buffers: list[Buffer] = []
        for chunk in self.chunks:
            if isinstance(chunk, FileSlice) or len(buffers) == GATHERED_BUFFERS_MAX:
                break
            buffers.append(chunk)
        return buffers

    def _send_buffers(self, buffers: list[Buffer]) -> bool:
        """Return True if all of them were sent; the rest stays queued."""
        chunks = self.chunks
        sent = self._socket.send(buffers, len(buffers) < len(chunks))
        for buffer in buffers:
            size = len(buffer)
            if sent < size:
                chunks[0] = memoryview(buffer)[sent:]
                return False
            sent -= size
            chunks.popleft()
        return True

    def _send_file(self, part: FileSlice) -> bool:
        try:
            sent = self._socket.send_file(part)
        except OSError as error:
            if error.errno in DISK_ERRORS:
                self._on_file_failed(part.file.path, error)
            raise
        if sent == part.count:
            self.chunks.popleft()
            return True
        if sent == 0:
            raise OSError(f"{part.file.path} ended before the bytes promised to the client")
        part.offset += sent
        part.count -= sent
        return False


def _copied(part: FileSlice) -> FileSlice | bytes:
    """Return the bytes of a file slice, or the slice itself if they cannot be read: `sendfile` then
    fails on it, and `_send_file` handles that failure."""
    try:
        data = part.read()
    except OSError:
        return part
    return data if len(data) == part.count else part
