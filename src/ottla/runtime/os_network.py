"""TCP on raw non-blocking sockets with the event loop's readiness callbacks, without transports."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ottla.buffers import Buffer
from ottla.logs import get_logger
from ottla.runtime.disk import FileSlice
from ottla.runtime.network import LEFT_TO_OS, BufferSizes, Listener, Socket
from ottla.runtime.os_disk import IOV_MAX
from ottla.runtime.racing import AllFailed, first_of

log = get_logger("ottla.network")

ACCEPTS_PER_WAKEUP_MAX = 64
ACCEPT_PAUSE_S = 1.0
"""How long to stop accepting when the machine has no descriptor or memory left."""

NEXT_ADDRESS_AFTER_S = 0.25
"""If a host has several addresses, the next one is tried in parallel after this time."""

PORT_ATTEMPTS_MAX = 20
_EVERY_IPV6_ADDRESS = "::"
"""It means every address of both families, as on Java's sockets and so in settings of Kafka."""
_EVERY_IPV4_ADDRESS = "0.0.0.0"
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ADDRESS_ABSENT = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})

AddressInfo = tuple[int, int, int, str, Any]

_MORE = getattr(socket, "MSG_MORE", 0)  # Linux only; elsewhere one more packet is sent


class OsSocket:
    """A connected TCP stream. `recv_into` is the socket's own bound method: the hot path."""

    __slots__ = (
        "__weakref__",
        "_fd",
        "_loop",
        "_reading",
        "_sock",
        "_writing",
        "local",
        "peer",
        "recv_into",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, peer: tuple[str, int]
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._loop = loop
        self._sock = sock
        self._fd = sock.fileno()
        self._reading = False
        self._writing = False
        self.recv_into = sock.recv_into
        self.peer = peer
        self.local: tuple[str, int] = sock.getsockname()[:2]

    def send(self, buffers: Sequence[Buffer], more: bool = False) -> int:
        flags = _MORE if more else 0
        if len(buffers) == 1:
            return self._sock.send(buffers[0], flags)
        gathered = buffers if len(buffers) <= IOV_MAX else buffers[:IOV_MAX]
        return self._sock.sendmsg(gathered, (), flags)

    def send_file(self, part: FileSlice) -> int:
        return os.sendfile(self._fd, part.file.fileno(), part.offset, part.count)

    def on_readable(self, callback: Callable[[], None] | None) -> None:
        if self._fd < 0:
            return
        if callback is not None:
            self._loop.add_reader(self._fd, callback)
        elif self._reading:
            self._loop.remove_reader(self._fd)
        self._reading = callback is not None

    def on_writable(self, callback: Callable[[], None] | None) -> None:
        if self._fd < 0:
            return
        if callback is not None:
            self._loop.add_writer(self._fd, callback)
        elif self._writing:
            self._loop.remove_writer(self._fd)
        self._writing = callback is not None

    def close(self) -> None:
        # The loop must forget the descriptor before the OS may reuse its number.
        self.on_readable(None)
        self.on_writable(None)
        self._fd = -1
        self._sock.close()

    def __repr__(self) -> str:
        return f"OsSocket(local={self.local}, peer={self.peer})"


class OsListener:
    """Listens on one port of every address of its host name."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: list[socket.socket],
        accepted: Callable[[Socket], None],
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._accepted = accepted
        self._paused = True
        self._retry: asyncio.TimerHandle | None = None
        self.address: tuple[str, int] = sockets[0].getsockname()[:2]
        self.resume()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [sock.getsockname()[:2] for sock in self._sockets]

    def pause(self) -> None:
        self._paused = True
        self._unwatch()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._watch()

    def close(self) -> None:
        self.pause()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        for sock in self._sockets:
            sock.close()
        self._sockets = []

    def _watch(self) -> None:
        if self._paused or self._retry is not None:
            return
        for sock in self._sockets:
            self._loop.add_reader(sock.fileno(), self._accept_ready, sock)

    def _unwatch(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())

    def _accept_ready(self, listening: socket.socket) -> None:
        # Bounded, so that a flood of connections cannot keep the loop from existing ones.
        for _ in range(ACCEPTS_PER_WAKEUP_MAX):
            if self._paused or listening.fileno() < 0:
                return
            try:
                sock, peer = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause_exhausted(error)
                    return
                continue  # the peer gave up while it was queued: nothing to accept
            self._hand_over(sock, peer[:2])

    def _hand_over(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        try:
            connected = OsSocket(self._loop, sock, peer)
        except OSError:
            sock.close()  # reset before it could be set up
            return
        try:
            self._accepted(connected)
        except Exception:
            log.exception("a new connection from %s:%d could not be served", *peer)
            connected.close()

    def _pause_exhausted(self, error: OSError) -> None:
        """Stop watching for a while: the queue stays readable, so watching on would spin."""
        log.error(
            "cannot accept on %s:%d: %s; trying again in %g s (raise the limit of open files?)",
            *self.address,
            error.strerror,
            ACCEPT_PAUSE_S,
        )
        self._unwatch()
        self._retry = self._loop.call_later(ACCEPT_PAUSE_S, self._after_pause)

    def _after_pause(self) -> None:
        self._retry = None
        self._watch()

    def __repr__(self) -> str:
        return f"OsListener({self.addresses})"


class OsNetwork:
    """TCP over IPv4 and IPv6 of this machine."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def host_name(self) -> str:
        name = socket.getfqdn()
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            # A name that not even this machine can resolve is useless for clients.
            log.warning("the host name %s does not resolve: telling clients localhost", name)
            return "localhost"
        return name

    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Socket], None],
        *,
        backlog: int = 50,
        buffers: BufferSizes = LEFT_TO_OS,
    ) -> Listener:
        infos = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        if host == _EVERY_IPV6_ADDRESS:
            infos += socket.getaddrinfo(_EVERY_IPV4_ADDRESS, port, type=socket.SOCK_STREAM)
        attempts = PORT_ATTEMPTS_MAX if port == 0 else 1
        while True:
            attempts -= 1
            try:
                sockets = _bind_all(list(dict.fromkeys(infos)), host, port, backlog, buffers)
            except OSError as error:
                # A port chosen for the first address may be taken on the second: choose again.
                if error.errno != errno.EADDRINUSE or attempts == 0:
                    raise
            else:
                return OsListener(self._loop, sockets, accepted)

    async def connect(self, host: str, port: int) -> Socket:
        infos = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        attempts = [partial(self._connect_to, info) for info in dict.fromkeys(infos)]
        if not attempts:
            raise OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
        if len(attempts) == 1:
            return await attempts[0]()
        try:
            return await first_of(attempts, stagger_s=NEXT_ADDRESS_AFTER_S, discard=_close)
        except AllFailed as failed:
            raise _telling(failed.errors) from None

    async def _connect_to(self, info: AddressInfo) -> Socket:
        family, kind, protocol, _, address = info
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            await self._loop.sock_connect(sock, address)
            return OsSocket(self._loop, sock, address[:2])
        except BaseException:
            sock.close()
            raise


def _telling(errors: Sequence[BaseException]) -> BaseException:
    """The first error, but for those of addresses that this machine cannot have: where it has no
    IPv6, "localhost" may still name ::1, which says nothing about the other side."""
    said = (error for error in errors if getattr(error, "errno", None) not in _ADDRESS_ABSENT)
    return next(said, errors[0])


def _close(connected: Socket) -> None:
    connected.close()


def _bind_all(
    infos: Sequence[AddressInfo], host: str, port: int, backlog: int, buffers: BufferSizes
) -> list[socket.socket]:
    """Listen on each address with the same port; addresses that this machine lacks are skipped."""
    sockets: list[socket.socket] = []
    absent: OSError | None = None
    try:
        for info in infos:
            try:
                sockets.append(_bind(info, port, backlog, buffers))
            except OSError as error:
                if error.errno not in _ADDRESS_ABSENT:
                    raise OSError(
                        error.errno, f"cannot listen on {host or '*'}:{port}: {error.strerror}"
                    ) from None
                absent = error
                continue
            port = port or sockets[0].getsockname()[1]
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    if not sockets:
        reason = absent.strerror if absent else "the name has no address"
        raise OSError(errno.EADDRNOTAVAIL, f"cannot listen on {host or '*'}:{port}: {reason}")
    return sockets


def _bind(info: AddressInfo, port: int, backlog: int, buffers: BufferSizes) -> socket.socket:
    family, kind, protocol, _, address = info
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # Each family has its own socket; a dual one would collide with the IPv4 one.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Accepted connections inherit these, and the window is settled before they are accepted.
        if buffers.send > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers.send)
        if buffers.receive > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers.receive)
        sock.bind((address[0], port, *address[2:]))
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock
