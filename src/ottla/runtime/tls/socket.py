"""A stream encrypted by TLS, with the interface of the plain socket under it.

OpenSSL works on memory here: bytes from the socket are fed to it, and its output is passed to the
socket. So readiness differs from the socket's own. Decrypted bytes may be waiting although nothing
more comes from the network, and the callback must be called for them; and encrypted bytes that the
kernel does not take now are kept, and sent when it does.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence
from typing import cast

from ottla.buffers import Buffer
from ottla.runtime.disk import FileSlice
from ottla.runtime.network import Socket

RECORD_BYTES = 16 << 10
"""The most that one TLS record contains."""
SENT_AT_ONCE_BYTES = 16 * RECORD_BYTES
CALLS_PER_WAKEUP_MAX = 16


class TlsError(OSError):
    """TLS itself failed, not the connection: a retry will not help."""


class BadTlsFile(TlsError):
    """A file of certificates or keys that does not exist or is invalid."""


class CertificateRefused(TlsError):
    """The certificate of the peer is not trusted."""


class NotTls(TlsError):
    """The peer does not use TLS."""


class TlsBuffers:
    """Where bytes are between a socket or a file and OpenSSL, which copies them at once: all
    sockets of one loop may share one."""

    __slots__ = ("_file", "received")

    def __init__(self) -> None:
        self.received = memoryview(bytearray(4 * RECORD_BYTES))
        self._file: memoryview | None = None

    @property
    def file(self) -> memoryview:
        if self._file is None:
            self._file = memoryview(bytearray(SENT_AT_ONCE_BYTES))
        return self._file


class TlsSocket:
    """Call `handshake`, or `advance` until it returns True, before anything else."""

    def __init__(
        self,
        raw: Socket,
        context: ssl.SSLContext,
        server_name: str,
        loop: asyncio.AbstractEventLoop,
        *,
        server_side: bool = False,
        buffers: TlsBuffers | None = None,
    ) -> None:
        self.peer = raw.peer
        self.local = raw.local
        self._raw = raw
        self._loop = loop
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_side,
            server_hostname=server_name or None,
        )
        self._buffers = buffers or TlsBuffers()
        self._unsent = memoryview(b"")
        self._readable: Callable[[], None] | None = None
        self._writable: Callable[[], None] | None = None
        self._more_inside = False
        self._closed = False

    async def handshake(self) -> None:
        while not self.advance():
            await self._arrival()

    def advance(self) -> bool:
        """Go on with the handshake, with the bytes that were received; True if it is complete."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._push()
            return False
        except ssl.SSLError as error:
            self._push_last()  # tells the peer why
            raise _in_words(error) from error
        self._push()
        return True

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate of the peer in DER, if it has shown one."""
        return self._tls.getpeercert(binary_form=True)

    async def _arrival(self) -> None:
        """Wait for bytes from the peer, or its end."""
        came = asyncio.Event()
        self._raw.on_readable(came.set)
        try:
            await came.wait()
            self.receive()
        except BlockingIOError:
            pass
        finally:
            self._raw.on_readable(None)

    # Reading

    def recv_into(self, buffer: memoryview) -> int:
        filled = 0
        while filled < len(buffer):
            try:
                space = buffer[filled:]
                count = cast(int, self._tls.read(len(space), space))
            except ssl.SSLWantReadError:
                self._push()  # answers of TLS itself
                if filled:
                    return filled
                self.receive()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return filled
            except ssl.SSLError as error:
                raise _in_words(error) from error
            else:
                filled += count
                if count == 0:  # the peer has closed TLS
                    return filled
        self._more_inside = True
        return filled

    def receive(self) -> int:
        """Take encrypted bytes from the socket, without decrypting them; return how many."""
        received = self._buffers.received
        count = self._raw.recv_into(received)
        if count:
            self._incoming.write(received[:count])
        else:
            self._incoming.write_eof()
        return count

    def on_readable(self, callback: Callable[[], None] | None) -> None:
        self._readable = callback
        self._raw.on_readable(self._raw_readable if callback is not None else None)
        if callback is not None and (self._tls.pending() or self._incoming.pending):
            self._loop.call_soon(self._raw_readable)

    def _raw_readable(self) -> None:
        for _ in range(CALLS_PER_WAKEUP_MAX):
            if self._readable is None:
                return
            self._more_inside = False
            self._readable()
            if not self._more_inside:
                return
        self._loop.call_soon(self._raw_readable)  # let other work run first

    # Writing

    def send(self, buffers: Sequence[Buffer], more: bool = False) -> int:
        if self._unsent:
            self._push()
            if self._unsent:
                raise BlockingIOError
        taken = 0
        if sum(map(len, buffers)) <= RECORD_BYTES:
            buffers = [b"".join(buffers)]
        for buffer in buffers:
            part = memoryview(buffer)[: SENT_AT_ONCE_BYTES - taken]
            if len(part):
                taken += self._encrypt(part)
        if not more:
            self._push()
        return taken

    def _encrypt(self, part: memoryview) -> int:
        try:
            return self._tls.write(part)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except ssl.SSLError as error:
            raise _in_words(error) from error

    def send_file(self, part: FileSlice) -> int:
        """Send a part of a file. The bytes must be read, because they have to be encrypted."""
        if self._unsent:
            self._push()
            if self._unsent:
                raise BlockingIOError  # before the file is read
        wanted = self._buffers.file[: part.count]
        count = os.preadv(part.file.fileno(), [wanted], part.offset)
        return self.send([wanted[:count]]) if count else 0

    def on_writable(self, callback: Callable[[], None] | None) -> None:
        self._writable = callback
        wanted = callback is not None or len(self._unsent) > 0
        self._raw.on_writable(self._raw_writable if wanted else None)

    def _raw_writable(self) -> None:
        try:
            self._push()
        except OSError:
            self._unsent = memoryview(b"")  # the reader will notice that the connection is lost
        if self._unsent:
            return
        if self._writable is not None:
            self._writable()
        else:
            self._raw.on_writable(None)

    def _push(self) -> None:
        """Pass encrypted bytes to the socket, as many as it takes."""
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            try:
                self._unsent = self._unsent[self._raw.send([self._unsent]) :]
            except BlockingIOError:
                self._raw.on_writable(self._raw_writable)
                return

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._readable = self._writable = None
        try:
            self._tls.unwrap()
        except (ssl.SSLError, ValueError):
            pass  # it writes the closing message, and does not wait for the peer's
        self._push_last()
        self._raw.close()

    def _push_last(self) -> None:
        try:
            self._push()
        except OSError:
            pass  # the peer is gone already

    def __repr__(self) -> str:
        return f"TlsSocket({self._raw!r}, {self._tls.version()})"


def _in_words(error: ssl.SSLError) -> OSError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return CertificateRefused(error.verify_message)
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return ConnectionAbortedError("closed by the peer during the TLS handshake")
    reason = error.reason or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return NotTls("the peer does not speak TLS")
    return TlsError(reason.lower().replace("_", " "))
