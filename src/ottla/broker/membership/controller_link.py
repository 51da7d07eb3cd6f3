"""Sends requests to the active controller: in this process, or over the network.

The active controller may change while a request is in flight. The request is then sent to the new
one. It is also repeated while there is no controller or it cannot be reached, until its time is up.
So a request may be carried out twice (for example, the topics exist the second time), as with
Kafka's brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from ottla.broker.peers.peers import PeerError, Peers
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.schema import Message, Struct
from ottla.runtime.runtime import Runtime

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 0.5
LANE: Final = "control"

ServeHere = Callable[[Message, "int | None"], Awaitable[Any]]
"""The controller of this node: (request, version) -> response."""


class Leadership(Protocol):
    """The known leadership of the controllers; implemented by the metadata log."""

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
        serve_here: ServeHere | None,
        *,
        timeout_ms: int,
    ) -> None:
        """`serve_here` is the controller of this node, asked while it is the active one."""
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
        read: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        """Return the active controller's answer, which `read` takes from its response. Raises
        `KafkaError(REQUEST_TIMED_OUT)` if there was none in time (`request.timeout.ms` unless
        given), or the error of the controller, if it is in this process.

        Requests of one `lane` wait for each other.
        """
        now = self._runtime.clock.now
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        deadline = now() + limit_ms / 1000
        pause_s = PAUSE_S_MIN
        while True:
            moved = self._moved
            left_s = deadline - now()
            answer, problem = await self._try(request, version, lane, left_s, read)
            if not problem:
                return answer
            left_s = deadline - now()
            if left_s <= 0:
                name = type(request).__name__.removesuffix("Request")
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"the controller did not answer {name} within {limit_ms} ms: {problem}",
                )
            # Try a new leader at once.
            await asyncio.wait({moved}, timeout=min(pause_s, left_s))
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _try(
        self,
        request: Message,
        version: int | None,
        lane: str,
        left_s: float,
        read: Callable[[Any], Any],
    ) -> tuple[Any, str]:
        """Return (answer, "") or (None, why there is none yet)."""
        leadership = self._leadership
        address = leadership.leader_endpoint()
        try:
            if leadership.is_leader and self._serve_here is not None:
                serving = self._serve_here(request, version)
                answer = await self._own_answer(serving, left_s)
            elif address is not None:
                answer = await self._post(address, request, version, lane, left_s)
            else:
                return None, "no controller is active"
        except PeerError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from None
            if error.code == ErrorCode.REQUEST_TIMED_OUT and address is not None:
                # After other attempts there may have been a millisecond left for this one, so
                # "timed out" alone would not tell anything.
                return None, f"{address[0]}:{address[1]} did not answer in time"
            return None, str(error)
        except KafkaError as error:
            if error.code != ErrorCode.NOT_CONTROLLER:
                raise
            return None, str(error)
        if answer is None:
            return None, "the controller that was asked did not get to it"
        taken = read(answer)
        if says_not_controller(taken):
            return None, "the controller that was asked is not the active one any more"
        return taken, ""

    def controller_versions(self) -> Mapping[int, tuple[int, int]] | None:
        """Return the versions of each API that the active controller serves; None if they are not
        known here, or this node is the active controller."""
        address = self._leadership.leader_endpoint()
        if self._leadership.is_leader or address is None:
            return None
        return self._peers.versions(*address)

    async def _own_answer(self, answering: Awaitable[Any], left_s: float) -> Any:
        """Return None if it takes too long: a leader that has lost its majority commits nothing.
        The request may still be carried out, as over the network."""
        serving = asyncio.ensure_future(answering)
        # The waiting task may be cancelled, and then nobody retrieves the outcome.
        serving.add_done_callback(_ignore_outcome)
        await asyncio.wait({serving}, timeout=left_s)
        return serving.result() if serving.done() else None

    async def _post(
        self,
        address: tuple[str, int],
        request: Message,
        version: int | None,
        lane: str,
        left_s: float,
    ) -> Any:
        """Return the answer from `address`; None if another controller takes over before it
        comes."""
        timeout_ms = max(1, int(left_s * 1000))
        reply = self._peers.post(
            *address, request, timeout_ms=timeout_ms, version=version, lane=lane
        )
        reply.add_done_callback(_ignore_outcome)
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
    """True if the node that answered is not the active controller. It then says so in every error
    code of the answer, so only the first of each list is checked."""
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    values = (getattr(response, field.name) for field in response.FIELDS)
    firsts = (value[0] for value in values if isinstance(value, list) and value)
    return any(isinstance(first, Struct) and says_not_controller(first) for first in firsts)
