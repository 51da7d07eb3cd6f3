"""`Peers` over connections of `ottla.network`: one per (host, port, lane), opened by the first
request.

Nothing is retried here. The caller knows better whether, where and when: a vote is requested from
other nodes, a fetch is retried after a pause.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NamedTuple

from ottla.broker.peers.peers import PeerError
from ottla.logs import get_logger
from ottla.network.connection import Connection
from ottla.network.errors import (
    Address,
    AuthenticationFailed,
    ClientError,
    RequestTimedOut,
    UnsupportedVersion,
    show_address,
)
from ottla.network.opening import open_connection
from ottla.network.security import PLAINTEXT, Security
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.schema import Message
from ottla.runtime.runtime import Runtime, Timer

log = get_logger("ottla.network")

UNANSWERED_MAX = 1_000
"""The most pending requests of a lane; the next one fails at once."""
LANES_MAX = 1_000
REFUSAL_LOG_INTERVAL_S = 30.0


class ConnectedPeers:
    """The nodes that this one sends requests to. Use it from the loop it was created in."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        client_id: str = "ottla",
        security: Callable[[], Security] = lambda: PLAINTEXT,
    ) -> None:
        """`security` is asked for each new connection: certificates are renewed."""
        self._runtime = runtime
        self._client_id = client_id
        self._security = security
        self._lanes: dict[tuple[str, int, str], _Lane] = {}
        self._closed = False

    def post(
        self,
        host: str,
        port: int,
        request: Message,
        *,
        timeout_ms: int,
        version: int | None = None,
        lane: str = "",
    ) -> asyncio.Future[Any]:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        deadline = self._runtime.clock.now() + timeout_ms / 1000
        letter = _Letter(request, version, deadline, timeout_ms, reply)
        found = self._lanes.get((host, port, lane)) or self._new_lane((host, port), lane)
        if self._closed or found is None:
            reason = "this node is closing" if self._closed else "too many connections"
            letter.fail(ErrorCode.NETWORK_EXCEPTION, reason)
        else:
            found.post(letter)
        return reply

    def versions(self, host: str, port: int) -> Mapping[int, tuple[int, int]] | None:
        for key, lane in self._lanes.items():
            if key[:2] == (host, port) and (served := lane.versions) is not None:
                return served
        return None

    def drop(self, host: str, port: int) -> None:
        for key, lane in list(self._lanes.items()):
            if key[:2] == (host, port):
                del self._lanes[key]
                lane.close("the connection was dropped")

    def close(self) -> None:
        self._closed = True
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            lane.close("this node is closing")

    def _new_lane(self, address: Address, name: str) -> _Lane | None:
        if self._closed:
            return None
        if len(self._lanes) >= LANES_MAX:
            self._lanes = {key: lane for key, lane in self._lanes.items() if not lane.is_idle}
        if len(self._lanes) >= LANES_MAX:
            return None
        lane = _Lane(self._runtime, address, self._client_id, self._security)
        self._lanes[(*address, name)] = lane
        return lane


class _Letter(NamedTuple):
    """A request, and the future of its response."""

    request: Message
    version: int | None
    deadline: float
    timeout_ms: int
    reply: asyncio.Future[Any]

    def fail(self, code: ErrorCode, reason: str, *, refused: bool = False) -> None:
        if not self.reply.done():
            self.reply.set_exception(PeerError(code, reason, refused=refused))
            self.reply.exception()  # marks it as retrieved: the caller may have stopped waiting


class _Lane:
    def __init__(
        self,
        runtime: Runtime,
        address: Address,
        client_id: str,
        security: Callable[[], Security],
    ) -> None:
        self._runtime = runtime
        self._address = address
        self._client_id = client_id
        self._security = security
        self._connection: Connection | None = None
        self._queued: deque[tuple[_Letter, Timer]] = deque()
        """Requests that wait for the connection, each with its timeout."""
        self._opening = False
        self._dropped = ""
        self._next_refusal_log_s = -inf

    @property
    def is_idle(self) -> bool:
        return not self._opening and (self._connection is None or self._connection.closed)

    @property
    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        """The versions that the node serves; None without a connection."""
        connection = self._connection
        return None if connection is None or connection.closed else connection.versions.served

    def post(self, letter: _Letter) -> None:
        connection = self._connection
        under_way = len(self._queued) if connection is None else connection.in_flight
        if under_way >= UNANSWERED_MAX:
            letter.fail(ErrorCode.NETWORK_EXCEPTION, f"{UNANSWERED_MAX} requests wait before it")
        elif connection is not None and not connection.closed:
            self._send(connection, letter, letter.timeout_ms)
        else:
            self._connection = None
            self._queue(letter)

    def close(self, reason: str) -> None:
        self._dropped = reason
        if self._connection is not None:
            self._connection.close()
        self._fail_queued(ErrorCode.NETWORK_EXCEPTION, reason)

    # Without a connection

    def _queue(self, letter: _Letter) -> None:
        late = f"no answer from {show_address(self._address)} within {letter.timeout_ms} ms"
        timer = self._runtime.call_later(
            letter.timeout_ms / 1000, letter.fail, ErrorCode.REQUEST_TIMED_OUT, late
        )
        self._queued.append((letter, timer))
        if not self._opening:
            self._opening = True
            self._runtime.spawn(self._open(letter.timeout_ms), name=f"connect-{self._address}")

    async def _open(self, timeout_ms: int) -> None:
        try:
            connection = await open_connection(
                self._runtime,
                self._address,
                client_id=self._client_id,
                connect_timeout_ms=timeout_ms,
                security=self._security(),
                in_flight_max=UNANSWERED_MAX,
            )
        except (ClientError, KafkaError) as error:
            if isinstance(error, AuthenticationFailed):
                self._log_refusal(error)
            refused = isinstance(error.__cause__, ConnectionRefusedError)
            self._fail_queued(_code_of(error), str(error), refused=refused)
        else:
            self._opened(connection)
        finally:
            self._opening = False

    def _log_refusal(self, error: AuthenticationFailed) -> None:
        """Whoever asks is told only that the other node cannot be reached: log why, now and
        then."""
        now = self._runtime.clock.now()
        if now >= self._next_refusal_log_s:
            self._next_refusal_log_s = now + REFUSAL_LOG_INTERVAL_S
            log.error(
                "this node cannot sign in to another: is what it signs in with, in the "
                "sasl.jaas.config of the listener between them, right?",
                reason=str(error),
            )

    def _opened(self, connection: Connection) -> None:
        if self._dropped:
            connection.close()
            return
        self._connection = connection
        now = self._runtime.clock.now()
        while self._queued:
            letter, timer = self._queued.popleft()
            timer.cancel()  # from here on the connection checks the deadline
            if not letter.reply.done():
                self._send(connection, letter, max(1, round((letter.deadline - now) * 1000)))

    def _fail_queued(self, code: ErrorCode, reason: str, *, refused: bool = False) -> None:
        while self._queued:
            letter, timer = self._queued.popleft()
            timer.cancel()
            letter.fail(code, reason, refused=refused)

    # With a connection

    def _send(self, connection: Connection, letter: _Letter, timeout_ms: int) -> None:
        request, version = letter.request, letter.version
        if version is not None and not _speaks(connection, request, version):
            name = f"{type(request).__name__} version {version}"
            reason = f"{show_address(self._address)} does not serve {name}"
            letter.fail(ErrorCode.UNSUPPORTED_VERSION, reason)
            return
        try:
            answer = connection.post(request, version=version, timeout_ms=timeout_ms)
        except ClientError as error:
            letter.fail(_code_of(error), str(error))
        except ValueError as error:  # a field that the peer's newest version does not have
            letter.fail(ErrorCode.UNSUPPORTED_VERSION, str(error))
        else:
            answer.add_done_callback(lambda done: _hand_over(done, letter))


def _speaks(connection: Connection, request: Message, version: int) -> bool:
    assert request.API_KEY is not None
    low, high = connection.versions.served.get(request.API_KEY, (0, -1))
    return low <= version <= high


def _hand_over(done: asyncio.Future[Any], letter: _Letter) -> None:
    if done.cancelled():
        letter.fail(ErrorCode.NETWORK_EXCEPTION, "the connection was closed")
    elif (error := done.exception()) is not None:
        letter.fail(_code_of(error), str(error))
    elif not letter.reply.done():
        letter.reply.set_result(done.result())


def _code_of(error: BaseException) -> ErrorCode:
    match error:
        case RequestTimedOut():
            return ErrorCode.REQUEST_TIMED_OUT
        case UnsupportedVersion():
            return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NETWORK_EXCEPTION
