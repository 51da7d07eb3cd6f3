"""The way to the active controller: in this process, or over the network.

Who leads the controllers may change while a request is on its way. It is then asked of the new
leader, as it is where nobody leads yet, or the leader cannot be reached, until the time for it is
up. So a request may be carried out twice (topics are there already, the second time); Kafka's
brokers are no different.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from ottla.peers.peers import PeerError, Peers
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.schema import Message, Struct
from ottla.runtime.runtime import Runtime

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 0.5
LANE: Final = "control"

ServeHere = Callable[[Message, "int | None"], Awaitable[Any]]
"""The controller of this node: (request, version) -> response."""


class Leadership(Protocol):
    """What is known of the active controller; the metadata log is one."""

    @property
    def is_leader(self) -> bool: ...

    def leader_endpoint(self) -> tuple[str, int] | None: ...

    def on_leader_change(self, callback: Callable[[], object]) -> None: ...


class ControllerLink:
    def __init__(
        self,
        runtime: Runtime,
        leadership: Leadership,
        peers: Peers,
        serve_here: ServeHere,
        *,
        timeout_ms: int,
    ) -> None:
        """`serve_here` is called only where this node leads the controllers."""
        self._runtime = runtime
        self._leadership = leadership
        self._peers = peers
        self._serve_here = serve_here
        self._timeout_ms = timeout_ms
        self._moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Resolved, and replaced, when another controller may have become the active one."""
        leadership.on_leader_change(self._leader_changed)

    async def ask(
        self,
        request: Message,
        *,
        timeout_ms: int | None = None,
        version: int | None = None,
        lane: str = LANE,
    ) -> Any:
        """The active controller's answer. `KafkaError(REQUEST_TIMED_OUT)` if there was none in
        time (`request.timeout.ms` unless given); what the controller raises, where it is here.

        Requests of one `lane` wait for each other.
        """
        now = self._runtime.clock.now
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        deadline = now() + limit_ms / 1000
        pause_s = PAUSE_S_MIN
        while True:
            moved = self._moved
            left_s = deadline - now()
            answer, problem = await self._try(request, version, lane, left_s)
            if not problem:
                return answer
            left_s = deadline - now()
            if left_s <= 0:
                name = type(request).__name__.removesuffix("Request")
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"the controller did not answer {name} within {limit_ms} ms: {problem}",
                )
            # A new leader is asked at once.
            await asyncio.wait({moved}, timeout=min(pause_s, left_s))
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _try(
        self, request: Message, version: int | None, lane: str, left_s: float
    ) -> tuple[Any, str]:
        """(answer, "") or (None, why there is none yet)."""
        leadership = self._leadership
        address = leadership.leader_endpoint()
        try:
            if leadership.is_leader:
                answer = await self._own_answer(request, version, left_s)
            elif address is not None:
                answer = await self._post(address, request, version, lane, left_s)
            else:
                return None, "no controller is active"
        except PeerError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from None
            if error.code == ErrorCode.REQUEST_TIMED_OUT and address is not None:
                # After other tries there may have been a millisecond left for this one, which would
                # be no news to anybody.
                return None, f"{address[0]}:{address[1]} did not answer in time"
            return None, str(error)
        except KafkaError as error:
            if error.code != ErrorCode.NOT_CONTROLLER:
                raise
            return None, str(error)
        if answer is None:
            return None, "the controller that was asked did not get to it"
        if says_not_controller(answer):
            return None, "the controller that was asked is not the active one any more"
        return answer, ""

    async def _own_answer(self, request: Message, version: int | None, left_s: float) -> Any:
        """None if it takes too long: a leader that has lost its majority commits nothing. What was
        asked for may be carried out all the same, as over the network."""
        serving = asyncio.ensure_future(self._serve_here(request, version))
        await asyncio.wait({serving}, timeout=left_s)
        if serving.done():
            return serving.result()
        serving.add_done_callback(_ignore_outcome)
        return None

    async def _post(
        self,
        address: tuple[str, int],
        request: Message,
        version: int | None,
        lane: str,
        left_s: float,
    ) -> Any:
        """The answer from `address`; None if another controller takes over before it comes."""
        timeout_ms = max(1, int(left_s * 1000))
        reply = self._peers.post(
            *address, request, timeout_ms=timeout_ms, version=version, lane=lane
        )
        while not reply.done():
            await asyncio.wait({reply, self._moved}, return_when=asyncio.FIRST_COMPLETED)
            if not reply.done() and self._leadership.leader_endpoint() != address:
                reply.cancel()
                return None
        return reply.result()

    def _leader_changed(self) -> None:
        moved, self._moved = self._moved, asyncio.get_running_loop().create_future()
        moved.set_result(None)


def _ignore_outcome(serving: asyncio.Future[Any]) -> None:
    if not serving.cancelled():
        serving.exception()


def says_not_controller(response: Struct) -> bool:
    """Whether the node that answered does not lead the controllers. It then says so in every error
    code of the answer, so that the first of each list is enough to look at."""
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    values = (getattr(response, field.name) for field in response.FIELDS)
    firsts = (value[0] for value in values if isinstance(value, list) and value)
    return any(isinstance(first, Struct) and says_not_controller(first) for first in firsts)
