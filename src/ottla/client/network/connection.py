"""One connection to one broker: requests go out in order, answers come back in order.

Built on a non-blocking socket and readiness callbacks, as the server is. Every request that waits
has a deadline; when one passes, the connection is closed, because the answers behind it could no
longer be told apart from it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from os import strerror
from typing import Any, cast

from ottla import __version__
from ottla.buffers import Buffer
from ottla.client.errors import (
    Address,
    BadResponse,
    ClientError,
    ConnectionLost,
    RequestTimedOut,
    Unreachable,
)
from ottla.client.network.frames import FrameReader, FrameTooLarge
from ottla.client.network.versions import KNOWN_BEFORE_ASKING, Versions
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from ottla.protocol.headers import frame_request, read_response_header
from ottla.runtime.network import Socket
from ottla.runtime.runtime import Runtime, Timer

RESPONSE_BYTES_MAX = 256 << 20
IN_FLIGHT_MAX = 64
CONNECT_TIMEOUT_MS = 10_000
REQUEST_TIMEOUT_MS = 30_000

Decode = Callable[[Buffer, int], tuple[Any, int]]


class _Waiting:
    """A request on its way, until its answer, its deadline or the end of the connection."""

    __slots__ = ("api_key", "correlation_id", "decode", "name", "reply", "timer", "version")

    def __init__(
        self, api_key: int, name: str, version: int, correlation_id: int, decode: Decode
    ) -> None:
        self.api_key = api_key
        self.name = name
        self.version = version
        self.correlation_id = correlation_id
        self.decode = decode
        self.reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.timer: Timer | None = None

    def settle(self, result: Any = None, error: BaseException | None = None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.reply.done():
            return
        if error is None:
            self.reply.set_result(result)
        else:
            self.reply.set_exception(error)


class Connection:
    """Use `Connection.open`. `request` waits for the answer; `post` leaves that to the caller."""

    def __init__(
        self,
        runtime: Runtime,
        socket: Socket,
        address: Address,
        *,
        client_id: str,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> None:
        self._runtime = runtime
        self._socket = socket
        self.address = address
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._frames = FrameReader(response_bytes_max)
        self._slots = asyncio.Semaphore(in_flight_max)
        self._waiting: deque[_Waiting] = deque()
        self._unsent: list[Buffer] = []
        self._drained: asyncio.Future[None] | None = None
        self._next_correlation_id = 0
        self.versions: Versions = KNOWN_BEFORE_ASKING
        self.failure: ClientError | None = None
        self.throttled_until = 0.0
        """The broker asked for silence until then: `request` waits, callers of `post` look."""
        self._used_at = runtime.clock.now()
        self._ends_when_idle = False
        socket.on_readable(self._readable)

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        address: Address,
        *,
        client_id: str = "ottla",
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        **limits: int,
    ) -> Connection:
        """Connect and ask which versions the broker serves."""
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                socket = await runtime.network.connect(*address)
        except TimeoutError:
            raise Unreachable(address, f"no answer within {connect_timeout_ms} ms") from None
        except OSError as error:
            raise Unreachable(address, _reason(error)) from error
        connection = cls(runtime, socket, address, client_id=client_id, **limits)
        try:
            await connection._negotiate()
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def closed(self) -> bool:
        return self.failure is not None

    async def request(
        self, request: Any, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Send a request in the newest version both sides know, and wait for its response."""
        async with self._slots:
            wait_s = self.throttled_until - self._runtime.clock.now()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            return await self.post(request, version=version, timeout_ms=timeout_ms)

    def post(
        self, request: Any, *, version: int | None = None, timeout_ms: int | None = None
    ) -> asyncio.Future[Any]:
        """Send now; the future is the response. The caller bounds how many are under way."""
        if version is None:
            version = self.version_of(request)
        response_class = self.versions.response_class(request.API_KEY)
        return self._post(request, version, decoder(response_class, version), timeout_ms)

    def post_unanswered(self, request: Any, *, version: int | None = None) -> None:
        """Send a request that has no response (produce with acks=0)."""
        if self.failure is not None:
            raise self.failure
        version = self.version_of(request) if version is None else version
        self._send(request, version)

    def version_of(self, request: Any) -> int:
        """The version that `request` would be sent in."""
        return self.versions.pick(request.API_KEY, self.address)

    async def drained(self) -> None:
        """Return when the kernel has taken every byte; what keeps `post_unanswered` bounded."""
        if self._unsent and self.failure is None:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    def is_idle_since(self, moment: float) -> bool:
        return not self._waiting and self._used_at < moment

    def close_when_idle(self) -> None:
        """Close as soon as what is under way has been answered."""
        self._ends_when_idle = True
        if not self._waiting:
            self.close()

    def close(self) -> None:
        self._fail(ConnectionLost(self.address, "closed by this client"))

    async def _negotiate(self) -> None:
        from ottla.protocol.messages.api_versions import ApiVersionsRequest

        request = ApiVersionsRequest(
            client_software_name="ottla", client_software_version=__version__
        )
        version = self.versions.pick(ApiKey.API_VERSIONS, self.address)
        response = await self._post(request, version, _decode_api_versions(version), None)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = Versions.of(response).common_api_versions(self.address)
            response = await self._post(request, version, _decode_api_versions(version), None)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code))
        self.versions = Versions.of(response)

    def _post(
        self, request: Any, version: int, decode: Decode, timeout_ms: int | None
    ) -> asyncio.Future[Any]:
        if self.failure is not None:
            raise self.failure
        correlation_id = self._send(request, version)
        waiting = _Waiting(request.API_KEY, type(request).__name__, version, correlation_id, decode)
        if self.failure is not None:
            waiting.settle(error=self.failure)
            return waiting.reply
        self._waiting.append(waiting)
        self._used_at = self._runtime.clock.now()
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        waiting.timer = self._runtime.call_later(limit_ms / 1000, self._expire, waiting, limit_ms)
        return waiting.reply

    def _send(self, request: Any, version: int) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        chunks = encoder(type(request), version)(request)
        idle = not self._unsent
        frame = frame_request(request.API_KEY, version, correlation_id, self._client_id, chunks)
        self._unsent += cast("list[Buffer]", frame)  # clients send no parts of files
        if idle:
            self._flush()
        return correlation_id

    def _flush(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent)
                self._unsent = _after(self._unsent, sent)
        except BlockingIOError:
            self._socket.on_writable(self._flush)
            return
        except OSError as error:
            self._fail(ConnectionLost(self.address, _reason(error)))
            return
        self._socket.on_writable(None)
        self._wake_drained()

    def _wake_drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _readable(self) -> None:
        try:
            count = self._socket.recv_into(self._frames.space())
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(ConnectionLost(self.address, _reason(error)))
            return
        if count == 0:
            self._fail(ConnectionLost(self.address, "the broker closed it"))
            return
        try:
            for frame in self._frames.received(count):
                self._answer(frame)
        except FrameTooLarge as error:
            self._fail(BadResponse(self.address, str(error)))
        except MalformedMessage as error:
            self._fail(BadResponse(self.address, str(error)))

    def _answer(self, frame: Buffer) -> None:
        if not self._waiting:
            raise MalformedMessage("a response that nobody asked for")
        waiting = self._waiting[0]
        correlation_id, position = read_response_header(frame, 0, waiting.api_key, waiting.version)
        if correlation_id != waiting.correlation_id:
            raise MalformedMessage(
                f"correlation id {correlation_id} where {waiting.correlation_id} was expected"
            )
        response, _ = waiting.decode(frame, position)
        self._waiting.popleft()
        if throttle_ms := getattr(response, "throttle_time_ms", 0):
            self.throttled_until = self._runtime.clock.now() + throttle_ms / 1000
        waiting.settle(response)
        if self._ends_when_idle and not self._waiting:
            self.close()

    def _expire(self, waiting: _Waiting, limit_ms: int) -> None:
        waiting.settle(error=RequestTimedOut(self.address, waiting.name, limit_ms))
        self._fail(ConnectionLost(self.address, f"{waiting.name} was not answered in time"))

    def _fail(self, failure: ClientError) -> None:
        if self.failure is not None:
            return
        self.failure = failure
        self._socket.close()
        self._unsent.clear()
        self._wake_drained()
        while self._waiting:
            self._waiting.popleft().settle(error=failure)


def _reason(error: OSError) -> str:
    """The OS's own words; asyncio replaces them by the name of its call."""
    if isinstance(error, ConnectionError) and error.errno:
        return strerror(error.errno).lower()
    return error.strerror or str(error)


def _after(buffers: list[Buffer], sent: int) -> list[Buffer]:
    """What is left of `buffers` after their first `sent` bytes."""
    for index, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [memoryview(buffer)[sent:], *buffers[index + 1 :]]
        sent -= len(buffer)
    return []


def _decode_api_versions(version: int) -> Decode:
    """A broker that does not know our version answers in version 0, error code first."""
    from ottla.protocol.messages.api_versions import ApiVersionsResponse

    def decode(frame: Buffer, position: int) -> tuple[Any, int]:
        error_code = int.from_bytes(frame[position : position + 2], "big", signed=True)
        spoken = 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version
        return decoder(ApiVersionsResponse, spoken)(frame, position)

    return decode
