"""One connection to one broker: requests are sent in order, responses come in order.

It uses a non-blocking socket and readiness callbacks, as the server does. Every pending request has
a deadline. When one passes, the connection is closed, because later responses could no longer be
matched to their requests. One timer serves all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf
from os import strerror
from typing import Any, cast

from ottla.buffers import Buffer
from ottla.counters import MetricRegistry
from ottla.network.connection_metrics import ConnectionMetrics
from ottla.network.deadlines import Deadlines
from ottla.network.errors import (
    Address,
    BadResponse,
    ClientError,
    ConnectionLost,
    RequestTimedOut,
    TlsFailed,
)
from ottla.network.exchange import Exchange, Waiting
from ottla.network.frames import FrameReader, FrameTooLarge
from ottla.network.outgoing import Outgoing
from ottla.network.versions import KNOWN_BEFORE_ASKING, Versions
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.headers import frame_request, read_response_header
from ottla.runtime.network import Socket
from ottla.runtime.runtime import Runtime
from ottla.runtime.tls.socket import TlsError

RESPONSE_BYTES_MAX = 256 << 20
IN_FLIGHT_MAX = 64
REQUEST_TIMEOUT_MS = 30_000
THROTTLED_SILENCE_FROM = 8
"""From this version of Fetch on, a throttled client must stay silent (KIP-219)."""


class Connection:
    """`request` waits for the response; `post` returns a future. Created by `opening`."""

    def __init__(
        self,
        runtime: Runtime,
        socket: Socket,
        address: Address,
        *,
        client_id: str = "ottla",
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        in_flight_max: int = IN_FLIGHT_MAX,
        metrics: ConnectionMetrics | None = None,
    ) -> None:
        self.address = address
        self.versions: Versions = KNOWN_BEFORE_ASKING
        self.failure: ClientError | None = None
        self.throttled_until = 0.0
        """The broker throttles until then: `request` waits, callers of `post` must check."""
        self.hint = ""
        """A likely cause to report if the broker closes the connection at the first request."""
        self.renew_at = inf
        """When `renew` is to be called before anything else is sent: the client must authenticate
        again before its session at the broker expires."""
        self.renew: Callable[[], None] = _nothing_to_renew
        self.metrics = metrics or ConnectionMetrics(MetricRegistry())
        self._runtime = runtime
        self._now = runtime.clock.now
        self._loop = asyncio.get_running_loop()
        self._socket = socket
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._frames = FrameReader(response_bytes_max)
        self._slots = asyncio.Semaphore(in_flight_max)
        self._exchanges: dict[tuple[int, int | None], Exchange] = {}
        self._waiting: deque[Waiting] = deque()
        self._held: list[tuple[Waiting | None, list[Buffer]]] | None = None
        self._outgoing = Outgoing(socket, self.metrics.outgoing_bytes, self._send_failed)
        self._next_correlation_id = 0
        self._answered_count = 0
        self._deadlines = Deadlines(runtime, self._waiting, self._expire)
        self._used_at = self._now()
        self._ends_when_idle = False
        self._heeds_throttling = False
        self.metrics.created.add()
        socket.on_readable(self._readable)

    @property
    def closed(self) -> bool:
        return self.failure is not None

    @property
    def in_flight(self) -> int:
        """Number of requests without a response."""
        return len(self._waiting) + len(self._held or ())

    # Requests

    async def request(
        self, request: Any, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Send a request in the newest version both sides support, and wait for its response."""
        async with self._slots:
            if self.throttled_until > self._now():
                await self._end_of_throttling(timeout_ms or self._request_timeout_ms)
            return await self.post(request, version=version, timeout_ms=timeout_ms)

    def post(
        self, request: Any, *, version: int | None = None, timeout_ms: int | None = None
    ) -> asyncio.Future[Any]:
        """Send now, and return a future of the response. The caller limits how many are pending."""
        exchange = self._exchange(request, version)
        if (now := self._now()) >= self.renew_at:
            self.renew()
        if self._held is None:
            return self.post_as(exchange, request, timeout_ms)
        waiting, frame = self._prepare(exchange, request, timeout_ms, now)
        self._held.append((waiting, frame))
        return waiting.reply

    def post_as(
        self, exchange: Exchange, request: Any, timeout_ms: int | None = None
    ) -> asyncio.Future[Any]:
        """Send in the given exchange, ahead of the requests that are held back."""
        waiting, frame = self._prepare(exchange, request, timeout_ms, self._now())
        self._dispatch(waiting, frame)
        return waiting.reply

    def post_unanswered(self, request: Any, *, version: int | None = None) -> None:
        """Send a request that has no response (produce with acks=0)."""
        exchange = self._exchange(request, version)
        if self._now() >= self.renew_at:
            self.renew()
        _, frame = self._prepare(exchange, request, 0, self._now())
        if self._held is None:
            self._dispatch(None, frame)
        else:
            self._held.append((None, frame))

    def version_of(self, request: Any) -> int:
        """Return the version in which `request` would be sent."""
        return self.versions.pick(request.API_KEY, self.address)

    @property
    def is_drained(self) -> bool:
        """True if the kernel has taken every byte."""
        return not self._outgoing

    async def drained(self) -> None:
        """Wait until the kernel has taken every byte, which bounds `post_unanswered`."""
        await self._outgoing.drained()

    def negotiated(self, versions: Versions) -> None:
        """Set the versions that the broker supports."""
        self.versions = versions
        self._exchanges.clear()
        # Brokers before Kafka 2.0 throttle by delaying the response, and report that delay.
        self._heeds_throttling = versions.supports(ApiKey.FETCH, THROTTLED_SILENCE_FROM)

    async def _end_of_throttling(self, limit_ms: int) -> None:
        # A broker mutes clients that ignore throttling, so sending after the limit does no harm.
        wait_s = self.throttled_until - self._now()
        await asyncio.sleep(min(wait_s, limit_ms / 1000))

    # Holding back

    def hold(self) -> None:
        """Send only `post_as` requests until `release`."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        held, self._held = self._held, None
        for waiting, frame in held or ():
            if self.failure is None:
                if waiting is not None:
                    waiting.begins(self._now())
                self._dispatch(waiting, frame)
            elif waiting is not None:
                waiting.fail(self.failure)

    # Closing

    def is_idle_since(self, moment: float) -> bool:
        return not self.in_flight and not self._outgoing and self._used_at < moment

    def close_when_idle(self) -> None:
        """Close as soon as all pending requests have responses."""
        self._ends_when_idle = True
        if not self.in_flight:
            self.close()

    def close(self) -> None:
        self.fail(ConnectionLost(self.address, "closed by this client"))

    def fail(self, failure: ClientError) -> None:
        """Close the connection; pending and later requests fail with this error."""
        if self.failure is not None:
            return
        self.failure = failure
        self.metrics.closed.add()
        self._socket.close()
        self._outgoing.drop()
        self._deadlines.stop()
        while self._waiting:
            self._waiting.popleft().fail(failure)
        self.release()

    # Sending

    def _exchange(self, request: Any, version: int | None) -> Exchange:
        key = (request.API_KEY, version)
        found = self._exchanges.get(key)
        if found is None:
            spoken = self.version_of(request) if version is None else version
            found = self._exchanges[key] = Exchange.of(request, spoken)
        return found

    def _prepare(
        self, exchange: Exchange, request: Any, timeout_ms: int | None, now: float
    ) -> tuple[Waiting, list[Buffer]]:
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        correlation_id = self._next_correlation_id
        frame = frame_request(
            exchange.api_key,
            exchange.version,
            correlation_id,
            self._client_id,
            exchange.encode(request),
        )
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        reply = self._loop.create_future()
        waiting = Waiting(exchange, correlation_id, reply, now, limit_ms)
        return waiting, cast("list[Buffer]", frame)  # clients send no file slices

    def _dispatch(self, waiting: Waiting | None, frame: list[Buffer]) -> None:
        self.metrics.requests.value += 1
        if waiting is not None:
            self._used_at = waiting.sent_at
            self._waiting.append(waiting)
            if waiting.deadline < self._deadlines.next_at:
                self._deadlines.wake_at(waiting.deadline)
        self._outgoing.push(frame)

    # Receiving

    def _readable(self) -> None:
        try:
            count = self._socket.recv_into(self._frames.space())
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(self._lost(error))
            return
        if count == 0:
            self.fail(ConnectionLost(self.address, self._why_closed()))
            return
        self.metrics.incoming_bytes.value += count
        try:
            for frame in self._frames.received(count):
                self._answer(frame)
        except (FrameTooLarge, MalformedMessage) as error:
            self.fail(BadResponse(self.address, str(error)))

    def _answer(self, frame: Buffer) -> None:
        if not self._waiting:
            raise MalformedMessage("a response that nobody asked for")
        waiting = self._waiting[0]
        exchange = waiting.exchange
        correlation_id, position = read_response_header(
            frame, 0, exchange.api_key, exchange.version
        )
        if correlation_id != waiting.correlation_id:
            raise MalformedMessage(
                f"correlation id {correlation_id} where {waiting.correlation_id} was expected"
            )
        try:
            response, _ = exchange.decode(frame, position)
        except MalformedMessage as error:
            raise MalformedMessage(
                f"no answer to {exchange.name} version {exchange.version}: {error}"
            ) from error
        self._waiting.popleft()
        self._settle(waiting, response)

    def _settle(self, waiting: Waiting, response: Any) -> None:
        now = self._used_at = self._now()
        self._answered_count += 1
        metrics = self.metrics
        metrics.responses.value += 1
        metrics.latency_ms.record((now - waiting.sent_at) * 1000)
        if throttle_ms := getattr(response, "throttle_time_ms", 0):
            metrics.throttle_ms.record(throttle_ms)
            if self._heeds_throttling:
                self.throttled_until = max(self.throttled_until, now + throttle_ms / 1000)
        if not waiting.reply.done():
            waiting.reply.set_result(response)
        if self._ends_when_idle and not self.in_flight:
            self.close()

    def _expire(self, due: list[Waiting]) -> None:
        for waiting in due:
            waiting.fail(RequestTimedOut(self.address, waiting.exchange.name, waiting.limit_ms))
        name = due[0].exchange.name
        self.fail(ConnectionLost(self.address, f"{name} was not answered in time"))

    # Errors

    def _send_failed(self, error: OSError) -> None:
        self.fail(self._lost(error))

    def _lost(self, error: OSError) -> ClientError:
        if isinstance(error, TlsError):
            return TlsFailed(self.address, str(error))
        return ConnectionLost(self.address, reason_of(error))

    def _why_closed(self) -> str:
        if self.hint and self._answered_count < 2 and self._waiting:
            return f"the broker closed it; {self.hint}"
        return "the broker closed it"


def reason_of(error: OSError) -> str:
    """Return the OS's own message; asyncio replaces it by the name of its call."""
    if isinstance(error, ConnectionError) and error.errno:
        return strerror(error.errno).lower()
    return error.strerror or str(error)


def _nothing_to_renew() -> None:
    return
