"""A connection on a scripted socket, with one API that echoes, and a clock that the test moves."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.settings import QuotaWindows
from ottla.broker.server.caller import Caller
from ottla.broker.server.connections.connection import Connection
from ottla.broker.server.connections.failure_log import FailureLog
from ottla.broker.server.contract import BROKERS
from ottla.buffers import Buffer
from ottla.protocol.errors import KafkaError, MalformedMessage
from ottla.runtime.disk import FileSlice
from ottla.security.principal import ANONYMOUS


class ScriptedSocket:
    """Gives what it is fed, in the pieces in which it is fed; takes what it has room for."""

    peer = ("127.0.0.1", 1)
    local = ("127.0.0.1", 2)

    def __init__(self) -> None:
        self.incoming: list[bytes] = []
        self.sent = bytearray()
        self.room = 1 << 30
        self.closed = False
        self.readable: Callable[[], None] | None = None
        self.writable: Callable[[], None] | None = None

    def recv_into(self, buffer: memoryview) -> int:
        if not self.incoming:
            raise BlockingIOError
        data = self.incoming.pop(0)
        count = min(len(data), len(buffer))
        buffer[:count] = data[:count]
        if data[count:]:
            self.incoming.insert(0, data[count:])
        return count

    def send(self, buffers: Sequence[Buffer], more: bool = False) -> int:
        if not self.room:
            raise BlockingIOError
        data = b"".join(buffers)[: self.room]
        self.room -= len(data)
        self.sent += data
        return len(data)

    def send_file(self, part: FileSlice) -> int:
        if not self.room:
            raise BlockingIOError
        data = part.read()[: self.room]
        self.room -= len(data)
        self.sent += data
        return len(data)

    def on_readable(self, callback: Callable[[], None] | None) -> None:
        self.readable = callback

    def on_writable(self, callback: Callable[[], None] | None) -> None:
        self.writable = callback

    def close(self) -> None:
        self.closed = True
        self.readable = self.writable = None

    def feed(self, *pieces: bytes) -> None:
        self.incoming += pieces
        while self.incoming and self.readable is not None:
            self.readable()

    def take(self, room: int) -> None:
        """The client reads: there is room again."""
        self.room = room
        if self.writable is not None:
            self.writable()


class Echo:
    """The response class of the test's only API: the request's own bytes."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.throttle_time_ms = 0


class EchoRoute:
    name = "Echo"
    request_is_flexible = False
    response_is_flexible = False
    response_class = Echo
    elements_max = 0
    weighed_above = None
    long_answer = None
    figures = None

    def __init__(self) -> None:
        self.handle: Callable[[Any, bytes], Any] = lambda context, body: Echo(body)
        self.served: list[bytes] = []

    def is_exempt(self, context: Any, body: bytes) -> bool:
        return body == b"of a node"

    def decode(self, frame: memoryview, position: int, left: int = 0) -> tuple[bytes, int]:
        body = bytes(frame[position:])
        if body == b"malformed":
            raise MalformedMessage("as the test asks for")
        self.served.append(body)
        return body, len(frame)

    def encode(self, response: Echo, left: int = 0) -> list[Buffer]:
        return [response.body]

    def error_response(self, error: Exception) -> Echo | None:
        return Echo(error.code.name.encode()) if isinstance(error, KafkaError) else None


class Timer:
    def __init__(self, at_s: float, ring: Callable[[], object]) -> None:
        self.at_s = at_s
        self.ring = ring
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeServer:
    def __init__(self, request_bytes_max: int = 1 << 20) -> None:
        self.route = EchoRoute()
        self.routes = {5 << 16: self.route}
        self.receive_view = memoryview(bytearray(64 * 1024))
        self.request_bytes_max = request_bytes_max
        self.forgotten = 0
        self.time_s = 0.0
        self.seconds_a_look = 0.0
        self.soon: list[Callable[[], None]] = []
        self.large_requests = None
        self.on_file_failed = None
        self.runtime = self
        self.clock = self
        self.quotas = ClientQuotas(QuotaWindows(11, 1), self.now)
        self.kind = BROKERS
        self.timers: list[Timer] = []
        self.broken_log = self.unserved_log = FailureLog(self, "broken", logging.WARNING)  # type: ignore[arg-type]

    def quotas_of(self, kind: str) -> ClientQuotas:
        return self.quotas

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        self.timers.append(Timer(self.time_s + delay_s, lambda: callback(*args)))
        return self.timers[-1]

    def wait(self, seconds: float) -> None:
        """Let time pass, and the timers that are due ring."""
        self.time_s += seconds
        for timer in [timer for timer in self.timers if timer.at_s <= self.time_s]:
            self.timers.remove(timer)
            if not timer.cancelled:
                timer.ring()

    def now(self) -> float:
        self.time_s += self.seconds_a_look
        return self.time_s

    def serve_later(self, connection: Connection) -> None:
        self.soon.append(connection.next_turn)

    def unserved(self, key: int, version: int) -> EchoRoute:
        raise MalformedMessage("not served")

    def forget(self, connection: Connection) -> None:
        self.forgotten += 1


def frame(correlation_id: int, body: bytes) -> bytes:
    payload = struct.pack(">hhih", 5, 0, correlation_id, -1) + body
    return struct.pack(">i", len(payload)) + payload


def answers(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while data:
        size, correlation_id = struct.unpack_from(">ii", data)
        found.append((correlation_id, bytes(data[8 : 4 + size])))
        data = data[4 + size :]
    return found


def connect(server: FakeServer | None = None) -> tuple[ScriptedSocket, FakeServer, Connection]:
    server = server or FakeServer()
    socket = ScriptedSocket()
    caller = Caller(ANONYMOUS, socket.peer, "PLAINTEXT", connection_id=1)
    connection = Connection(socket, caller, server, server, server)  # type: ignore[arg-type]
    return socket, server, connection
