"""Sockets: the operations of the server and the clients on a network.

The interface is a non-blocking stream socket with readiness callbacks, because that is the fastest
thing the event loop offers: there is no transport, no protocol object and no copy between the
kernel and the request parser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from ottla.buffers import Buffer
from ottla.runtime.disk import FileSlice


class Socket(Protocol):
    """A connected, non-blocking stream: `BlockingIOError` means "not now", 0 bytes read "ended"."""

    peer: tuple[str, int]
    local: tuple[str, int]

    def recv_into(self, buffer: memoryview) -> int: ...

    def send(self, buffers: Sequence[Buffer], more: bool = False) -> int:
        """Gather-write; may take fewer bytes than given. `more`: the next send follows at once, so
        both may travel in one packet."""
        ...

    def send_file(self, part: FileSlice) -> int:
        """Copy from the file to the socket inside the kernel; may take fewer bytes than given, and
        takes none if the file has ended."""
        ...

    def on_readable(self, callback: Callable[[], None] | None) -> None:
        """Call back while there is something to read (level-triggered); `None` stops it."""
        ...

    def on_writable(self, callback: Callable[[], None] | None) -> None: ...

    def close(self) -> None:
        """Idempotent; drops both callbacks."""
        ...


class Listener(Protocol):
    address: tuple[str, int]
    """The address it listens on: with the actual port if 0 was requested."""

    def pause(self) -> None:
        """Leave new connections in the kernel's queue (used at a connection limit)."""
        ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


class BufferSizes(NamedTuple):
    """Sizes of a socket's kernel buffers in bytes; -1 lets the OS choose them."""

    send: int = -1
    receive: int = -1


LEFT_TO_OS: Final = BufferSizes()


class Network(Protocol):
    def host_name(self) -> str:
        """Return a name by which this machine can be reached, for clients if none is configured."""
        ...

    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Socket], None],
        *,
        backlog: int = 50,
        buffers: BufferSizes = LEFT_TO_OS,
    ) -> Listener:
        """Listen on an address; raises `OSError` if that is impossible. An empty host means every
        interface."""
        ...

    async def connect(self, host: str, port: int) -> Socket:
        """Resolve and connect; `OSError` on failure. The caller bounds the time."""
        ...
