"""A connection that speaks the protocol byte by byte, in any version."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Protocol

from bench.brokers import HOST

from ottla.protocol.apis import api
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import frame_request, read_response_header

RETRIABLE = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


class Listening(Protocol):
    """A broker process, or a listener of a node in this process."""

    @property
    def port(self) -> int: ...


class Wire:
    """One connection, one request at a time, unless `send` and `receive` are called apart."""

    client_id = "wire"

    def __init__(self, broker: Listening, port: int | None = None, client_id: str = "wire") -> None:
        """`port` is that of another listener than the one the broker was started with."""
        self.client_id = client_id
        self.socket = socket.create_connection((HOST, port or broker.port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive(request, version)

    def send(self, request: Any, version: int) -> None:
        self.socket.sendall(self.frame(request, version))

    def frame(self, request: Any, version: int) -> bytes:
        chunks = encoder(type(request), version)(request)
        frame = frame_request(request.API_KEY, version, 7, self.client_id, chunks)
        return b"".join(bytes(chunk) for chunk in frame)  # type: ignore[arg-type]

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, request: Any, version: int) -> Any:
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        _, position = read_response_header(frame, 0, request.API_KEY, version)
        return decoder(api(request.API_KEY).response_class(), version)(frame, position)[0]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the broker closed the connection"
            data += piece
        return data

    def close(self) -> None:
        self.socket.close()


def until_served(ask: Callable[[], Any], error_of: Callable[[Any], int]) -> Any:
    """Ask again for as long as the answer is to wait."""
    deadline = time.monotonic() + 20
    while True:
        answer = ask()
        if error_of(answer) not in RETRIABLE:
            return answer
        assert time.monotonic() < deadline, f"still not served: {answer}"
        time.sleep(0.05)
