"""Sockets. What the server and the clients may ask of a network.

The seam is a non-blocking stream socket and readiness callbacks, because that is the fastest thing
the event loop offers: no transport, no protocol object and no copy stands between the kernel and
the request parser.
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
        """Gather-write; may take fewer bytes than given. `more` says that the next send follows at
        once, so that both may travel in one packet."""
        ...

    def send_file(self, part: FileSlice) -> int:
        """Copy from the file to the socket inside the kernel; may take fewer bytes than given, and
        takes none where the file has ended."""
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
    """Where it listens: the port that was picked when 0 was asked for."""

    def pause(self) -> None:
        """Leave new connections in the kernel's queue (used at a connection limit)."""
        ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


class BufferSizes(NamedTuple):
    """Of the kernel's buffers of a socket, in bytes; -1 leaves them to the OS, which sizes them by
    what the connection needs."""

    send: int = -1
    receive: int = -1


LEFT_TO_OS: Final = BufferSizes()


class Network(Protocol):
    def host_name(self) -> str:
        """A name by which this machine can be reached, told to clients where none is configured."""
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
        """`OSError` where the address cannot be had. An empty host means every interface."""
        ...

    async def connect(self, host: str, port: int) -> Socket:
        """Resolve and connect; `OSError` on failure. The caller bounds the time."""
        ...
