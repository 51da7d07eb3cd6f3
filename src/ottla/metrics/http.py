"""HTTP connections that ask for pages, such as Prometheus's: GET and HEAD, one request at a time.

Neither a slow nor a hostile client can cost more than its bounds: so many connections, so many
bytes of a request, so much time for it.
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.logs import get_logger

if TYPE_CHECKING:
    from ottla.runtime.network import Listener, Socket
    from ottla.runtime.runtime import Runtime, Timer

log = get_logger("ottla.metrics")

CONNECTIONS_MAX: Final = 32
"""The oldest one is closed for a new one."""
REQUEST_BYTES_MAX: Final = 8 * 1024
UNREAD_MAX: Final = 64 * 1024
REQUEST_S_MAX: Final = 10.0
"""The most time that a client may take to send a request, or to take an answer."""
IDLE_S_MAX: Final = 120.0
GZIP_LEVEL: Final = 1
GZIP_BYTES_MIN: Final = 2_000

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Asked(NamedTuple):
    """A request: its path, and its headers by their names in lower case."""

    path: str
    headers: Mapping[str, str]

    def accepts(self, header: str, value: str) -> bool:
        return value in self.headers.get(header, "")


class Page(NamedTuple):
    status: int
    content_type: str
    body: bytes


def plain(status: int, text: str) -> Page:
    return Page(status, "text/plain; charset=utf-8", text.encode() + b"\n")


Answer = Callable[[Asked], Awaitable[Page]]


class HttpServer:
    def __init__(self, runtime: Runtime, host: str, port: int, answer: Answer) -> None:
        """Listen; raises `OSError` if that is impossible."""
        self.runtime = runtime
        self.answer = answer
        self._connections: dict[HttpConnection, None] = {}
        self._listener: Listener = runtime.network.listen(host, port, self._accepted)
        self._listener.resume()

    @property
    def address(self) -> tuple[str, int]:
        return self._listener.address

    def _accepted(self, socket: Socket) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            next(iter(self._connections)).close()
        self._connections[HttpConnection(self, socket)] = None

    def forget(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)

    def close(self) -> None:
        self._listener.close()
        for connection in list(self._connections):
            connection.close()


class HttpConnection:
    def __init__(self, server: HttpServer, socket: Socket) -> None:
        self._server = server
        self._socket = socket
        self._received = bytearray()
        self._room = memoryview(bytearray(REQUEST_BYTES_MAX))
        self._unsent = memoryview(b"")
        self._keeps_open = True
        self._closed = False
        self._timer: Timer | None = None
        self._wait_at_most(IDLE_S_MAX)
        socket.on_readable(self._on_readable)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._socket.close()
        self._server.forget(self)

    def _wait_at_most(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._server.runtime.call_later(seconds, self.close)

    # --- requests -------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        try:
            count = self._socket.recv_into(self._room)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self.close()
            return
        if not self._received:
            self._wait_at_most(REQUEST_S_MAX)
        self._received += self._room[:count]
        self._serve_next()

    def _serve_next(self) -> None:
        """Serve the next request, if it has arrived whole."""
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            if len(self._received) >= REQUEST_BYTES_MAX:
                self._refuse(431)
            return
        # Nothing is read while a request is served: its answer must leave first.
        self._socket.on_readable(None)
        self._received = rest
        try:
            method, path, version, headers = _parsed(bytes(head))
        except ValueError:
            self._refuse(400)
            return
        closes = "close" in headers.get("connection", "").lower()
        self._keeps_open = version == "HTTP/1.1" and not closes
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            self._refuse(400)
            return
        if method not in ("GET", "HEAD"):
            self._refuse(405)
            return
        asked = Asked(path.partition("?")[0], headers)
        self._wait_at_most(REQUEST_S_MAX)
        self._server.runtime.spawn(self._answer(method, asked), name="metrics-page")

    def _refuse(self, status: int) -> None:
        self._socket.on_readable(None)
        self._keeps_open = False
        self._send(plain(status, _REASONS[status]), {}, with_body=True)

    async def _answer(self, method: str, asked: Asked) -> None:
        try:
            page = await self._server.answer(asked)
        except Exception:
            log.exception("a page could not be made", path=asked.path)
            page = plain(500, "this page could not be made; the log has the reason")
        headers = {}
        if len(page.body) >= GZIP_BYTES_MIN and asked.accepts("accept-encoding", "gzip"):
            packed = await self._server.runtime.in_thread(gzip.compress, page.body, GZIP_LEVEL)
            page, headers = page._replace(body=packed), {"Content-Encoding": "gzip"}
        if not self._closed:
            self._send(page, headers, with_body=method == "GET")

    # --- answers --------------------------------------------------------------------------------

    def _send(self, page: Page, headers: Mapping[str, str], *, with_body: bool) -> None:
        lines = [
            f"HTTP/1.1 {page.status} {_REASONS[page.status]}",
            f"Content-Type: {page.content_type}",
            f"Content-Length: {len(page.body)}",
            *(f"{name}: {value}" for name, value in headers.items()),
            f"Connection: {'keep-alive' if self._keeps_open else 'close'}",
        ]
        if page.status == 405:
            lines.append("Allow: GET, HEAD")
        head = "\r\n".join([*lines, "", ""]).encode()
        self._unsent = memoryview(head + page.body if with_body else head)
        self._wait_at_most(REQUEST_S_MAX)
        self._write()

    def _write(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send([self._unsent]) :]
        except BlockingIOError:
            self._socket.on_writable(self._write)
            return
        except OSError:
            self.close()
            return
        self._socket.on_writable(None)
        if not self._keeps_open:
            self._read_the_rest()
            self.close()
            return
        self._wait_at_most(IDLE_S_MAX)
        self._socket.on_readable(self._on_readable)
        if self._received:
            self._serve_next()

    def _read_the_rest(self) -> None:
        """Read what has arrived, within bounds: the system would reset a connection that is closed
        with unread bytes, and the client might lose the answer."""
        try:
            for _ in range(UNREAD_MAX // REQUEST_BYTES_MAX):
                if not self._socket.recv_into(self._room):
                    return
        except OSError:  # nothing more, for now or for ever
            return


def _parsed(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    """Return method, path, version and headers of a request; raises `ValueError`."""
    first, *others = head.decode("latin-1").split("\r\n")
    method, path, version = first.split(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not path.startswith("/"):
        raise ValueError
    headers = {}
    for line in others:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise ValueError
        headers[name.lower()] = value.strip()
    return method, path, version, headers
