"""Reads small documents: from files, and from servers over http and https."""

from __future__ import annotations

import socket
import ssl
import stat
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Lock, Timer
from typing import IO, Any, Final
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    Request,
    build_opener,
)

SCHEMES: Final = ("file", "http", "https")
CONNECT_TIMEOUT_S: Final = 10.0
ANSWER_TIMEOUT_S: Final = 10.0
_REFUSAL_BYTES_MAX: Final = 4096


class CannotFetch(Exception):
    """The document cannot be read. `status` and `body` are those of a server's refusal."""

    def __init__(self, reason: str, status: int = 0, body: bytes = b"") -> None:
        super().__init__(reason)
        self.status = status
        self.body = body


class Fetch:
    """Reads one document. `run` takes time, so call it in a thread; `abort` ends it from outside.

    A server gets `connect_s` to accept, then `answer_s` for all of its answer, however slowly it
    sends it. It may redirect to the same scheme only, and not at all if the request has a body,
    which may hold a secret.
    """

    def __init__(
        self,
        url: str,
        *,
        bytes_max: int,
        connect_s: float = CONNECT_TIMEOUT_S,
        answer_s: float = ANSWER_TIMEOUT_S,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        context: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._url = url
        self._bytes_max = bytes_max
        self._connect_s = connect_s
        self._answer_s = answer_s
        self._headers = {"Accept": "application/json", **(headers or {})}
        self._body = body
        self._context = context
        self._guard = _Guard()

    def run(self) -> bytes:
        """Return the document; raises `CannotFetch`."""
        scheme = scheme_of(self._url)
        if scheme not in SCHEMES:
            raise CannotFetch(f"{self._url}: expected one of {', '.join(SCHEMES)}")
        document = self._from_file() if scheme == "file" else self._from_server(scheme)
        if len(document) > self._bytes_max:
            raise CannotFetch(f"{self._url} is larger than {self._bytes_max} bytes")
        return document

    def abort(self) -> None:
        self._guard.close()

    def _from_file(self) -> bytes:
        path = Path(path_of(self._url))
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise CannotFetch(f"{self._url} is not a file")
            with path.open("rb") as file:
                return file.read(self._bytes_max + 1)
        except OSError as error:
            raise CannotFetch(f"{self._url}: {error.strerror}") from error

    def _from_server(self, scheme: str) -> bytes:
        timer = Timer(self._connect_s + self._answer_s, self._guard.close)
        timer.daemon = True
        try:
            handlers: list[Any] = [_SameScheme(), _Http(self._guard, self._answer_s)]
            if scheme == "https":
                handlers.append(_Https(self._guard, self._answer_s, self._context()))
            request = Request(self._url, self._body, self._headers)
            timer.start()
            with build_opener(*handlers).open(request, timeout=self._connect_s) as answer:
                document: bytes = answer.read(self._bytes_max + 1)
        except HTTPError as error:
            reason = f"{self._url}: the server answers {error.code} {error.reason}"
            raise CannotFetch(reason, error.code, _body_of(error)) from None
        except (OSError, HTTPException, ValueError) as error:
            if self._guard.closed:
                raise self._late() from error
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            raise CannotFetch(f"{self._url}: {reason}") from error
        finally:
            timer.cancel()
        if self._guard.closed:
            raise self._late()
        return document

    def _late(self) -> CannotFetch:
        limit_s = self._connect_s + self._answer_s
        return CannotFetch(f"{self._url}: no whole answer within {limit_s:g} s")


def scheme_of(url: str) -> str:
    return url.partition(":")[0].lower()


def path_of(url: str) -> str:
    """Return the path that `file:/path` or `file:///path` names."""
    return unquote(urlsplit(url).path)


def _body_of(error: HTTPError) -> bytes:
    try:
        return error.read(_REFUSAL_BYTES_MAX)
    except (OSError, HTTPException, ValueError):
        return b""


class _Guard:
    """The socket of a request, to be closed from another thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self.closed = False

    def watch(self, found: socket.socket) -> None:
        with self._lock:
            self._socket = found
            if self.closed:
                _shut(found)

    def connect(
        self, address: tuple[str, int], timeout: float, source_address: object = None
    ) -> socket.socket:
        """Do what `socket.create_connection` does, so that it can be ended, too."""
        problem: OSError = OSError(f"{address[0]} has no address")
        for family, kind, protocol, _, place in socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM
        ):
            found = socket.socket(family, kind, protocol)
            try:
                found.settimeout(timeout)
                self.watch(found)
                found.connect(place)
                if not self.closed:
                    return found
                raise OSError("ended")
            except OSError as error:
                found.close()
                problem = error
                if self.closed:
                    break
        raise problem

    def close(self) -> None:
        with self._lock:
            self.closed = True
            if self._socket is not None:
                _shut(self._socket)


def _shut(found: socket.socket) -> None:
    """Wake who reads from it. The TLS state on top of it stays that thread's own."""
    try:
        socket.socket.shutdown(found, socket.SHUT_RDWR)
    except OSError:
        pass


class _HttpConnection(HTTPConnection):
    def __init__(self, guard: _Guard, answer_s: float, host: str, **options: Any) -> None:
        super().__init__(host, **options)
        self._create_connection = guard.connect
        self._answer_s = answer_s

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(self._answer_s)


class _HttpsConnection(HTTPSConnection):
    def __init__(
        self,
        guard: _Guard,
        answer_s: float,
        host: str,
        *,
        context: ssl.SSLContext,
        **options: Any,
    ) -> None:
        super().__init__(host, context=context, **options)
        self._create_connection = guard.connect
        self._guard = guard
        self._answer_s = answer_s
        self._tls = context

    def connect(self) -> None:
        HTTPConnection.connect(self)
        name = getattr(self, "_tunnel_host", None) or self.host
        secured = self._tls.wrap_socket(
            self.sock, server_hostname=name, do_handshake_on_connect=False
        )
        self.sock = secured
        self._guard.watch(secured)
        secured.do_handshake()
        secured.settimeout(self._answer_s)


class _Http(HTTPHandler):
    def __init__(self, guard: _Guard, answer_s: float) -> None:
        super().__init__()
        self._connection = partial(_HttpConnection, guard, answer_s)

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self._connection, req)


class _Https(HTTPSHandler):
    def __init__(self, guard: _Guard, answer_s: float, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._connection = partial(_HttpsConnection, guard, answer_s, context=context)

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self._connection, req)


class _SameScheme(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        """None: the redirect counts as a refusal."""
        if req.data is not None or scheme_of(newurl) != req.type:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)
