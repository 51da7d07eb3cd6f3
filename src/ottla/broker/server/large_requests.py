"""Decodes, handles and encodes large requests: one at a time, a slice of a few milliseconds in each
turn of the event loop, so that other requests are served in between.

While a request waits (for a flush, replicas, the controller) the next one may enter. A request
whose client disconnects stops where it is: pieces that were not begun are not served.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.server.pending import Pending, resolved
from ottla.broker.server.pieces import GATHERED_ELEMENTS_MAX, Gathered, Split, cut, dismantled
from ottla.protocol.errors import ErrorCode, KafkaError, MalformedMessage, TooManyElements
from ottla.runtime.burst_memory import BURST, in_bursts
from ottla.runtime.collector import collector_paused
from ottla.runtime.pace import SLICE_S, STEPS_BETWEEN_CLOCK_LOOKS, Pace, in_slices

if TYPE_CHECKING:
    from ottla.broker.server.connections.meter import Meter
    from ottla.broker.server.context import NodeContext
    from ottla.broker.server.dispatch import Route
    from ottla.broker.server.pieces import Path
    from ottla.runtime.runtime import Runtime


class Undecodable(Exception):
    """A request cannot be decoded, or has too many elements even for slices."""


class Encoded:
    """An answer that is already encoded."""

    __slots__ = ("chunks",)

    def __init__(self, chunks: list[Any]) -> None:
        self.chunks = chunks


class LargeRequests:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = asyncio.Lock()

    async def serve_frame(
        self,
        route: Route,
        context: NodeContext,
        frame: memoryview,
        position: int,
        meter: Meter | None = None,
    ) -> Encoded | None:
        """Serve a request that has not been decoded; raises `Undecodable` if it cannot be."""
        async with self._place():
            return await self._decoded_and_served(route, context, frame, position, meter)

    async def serve(
        self, route: Route, context: NodeContext, request: Any, meter: Meter | None = None
    ) -> Encoded | None:
        async with self._place():
            return await self._served(route, context, request, meter)

    async def answer(self, route: Route, result: Awaitable[Any], meter: Meter | None) -> Encoded:
        """Return the response of a handler whose answers may be long. There is no garbage
        collection between its last step and the encoding: it would look at the whole response."""
        with collector_paused():
            response = await result
            if meter is not None:
                meter.settle(response)
            return await self.encode(route, response)

    async def encode(self, route: Route, response: Any) -> Encoded:
        async with self._place():
            return await self._encoded(route, response, route.long_answer)

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Wait until no other request is served. Code that leaves it must have released all objects
        of the request, or the next garbage collection would scan them."""
        async with self._lock:
            with collector_paused():
                yield

    async def _decoded_and_served(
        self,
        route: Route,
        context: NodeContext,
        frame: memoryview,
        position: int,
        meter: Meter | None,
    ) -> Encoded | None:
        refusal = None
        try:
            steps = route.decode_in_steps(frame, position, route.elements_max)
            request, _ = await in_slices(self._runtime, steps)
        except MalformedMessage as error:
            refusal = str(error)
        if refusal is not None:
            raise Undecodable(refusal)
        return await self._served(route, context, request, meter)

    async def _served(
        self, route: Route, context: NodeContext, request: Any, meter: Meter | None
    ) -> Encoded | None:
        if meter is not None and route.is_exempt(context, request):
            meter.exempt()
        split = route.split
        if split is None:
            started_s = self._runtime.clock.now()
            with BURST:
                result = route.handle(context, request)
            if meter is not None:
                meter.spent_s += self._runtime.clock.now() - started_s
            response = await self._answer(result)
        else:
            response = await self._in_pieces(route, split, context, request, meter)
        if meter is not None:
            meter.settle(response)
        if response is None:
            return None
        return await self._encoded(
            route, response, route.long_answer if split is None else split.response
        )

    async def _in_pieces(
        self,
        route: Route,
        split: Split,
        context: NodeContext,
        request: Any,
        meter: Meter | None,
    ) -> Any:
        serve = _refusal_of(route) if _is_too_much_together(request, split) else route.handle
        gathered = Gathered(split)
        size = _PieceSize(split.piece_max)
        pieces = cut(request, split, size)
        try:
            await self._serve_pieces(serve, context, pieces, size, gathered, meter)
        except (Exception, asyncio.CancelledError):
            # The rest is freed in slices, too: that takes as long as creating it.
            await in_slices(self._runtime, _discard_pieces(pieces))
            if gathered.response is not None:
                await in_slices(self._runtime, dismantled(gathered.response, split.response))
            raise
        return gathered.response

    async def _serve_pieces(
        self,
        serve: Callable[..., Any],
        context: NodeContext,
        pieces: Iterator[Any],
        size: _PieceSize,
        gathered: Gathered,
        meter: Meter | None,
    ) -> None:
        pace = Pace(self._runtime)
        while True:
            await pace.rest()
            with BURST:
                piece = _after_some_steps(pieces)
                if piece is None:
                    continue
                if piece is _NO_MORE:
                    return
                started_s = self._runtime.clock.now()
                result = serve(context, piece)
                took_s = self._runtime.clock.now() - started_s
                size.took(took_s)
                if meter is not None:
                    meter.spent_s += took_s
            answer = await self._answer(result)
            with BURST:
                gathered.add(answer)
            if gathered.is_too_large:
                raise TooManyElements(f"an answer of more than {GATHERED_ELEMENTS_MAX} elements")

    async def _answer(self, result: Any) -> Any:
        """Wait for the handler's response. Other requests may be served meanwhile."""
        if not isinstance(result, Pending) and not inspect.isawaitable(result):
            return result
        self._lock.release()
        try:
            if not isinstance(result, Pending):
                # A handler finishes what it has begun, even if the client disconnects.
                result = await asyncio.shield(in_bursts(result))
            if isinstance(result, Pending):
                result = await resolved(result)
        finally:
            await self._lock.acquire()
        return result

    async def _encoded(self, route: Route, response: Any, long: Path | None) -> Encoded:
        """Encode a response, then free the array that `long` names."""
        encoded = Encoded(await in_slices(self._runtime, route.encode_in_steps(response)))
        if long is not None:
            await in_slices(self._runtime, dismantled(response, long))
        return encoded


def _is_too_much_together(request: Any, split: Split) -> bool:
    elements = getattr(request, split.request[0]) or ()
    return split.together_max is not None and len(elements) > split.together_max


def _refusal_of(route: Route) -> Callable[[NodeContext, Any], Any]:
    """Return a handler that refuses each element of a request with too many of them."""
    refuse, split = route.refuse, route.split
    assert refuse is not None
    assert split is not None
    error = KafkaError(
        ErrorCode.POLICY_VIOLATION,
        f"{split.request[0]}: at most {split.together_max} in one request; ask for fewer at a time",
    )
    return lambda _, piece: refuse(piece, error)


_NO_MORE: Final = object()


def _after_some_steps(pieces: Iterator[Any]) -> Any:
    """Return the next piece; None if finding it takes more than a few steps."""
    for _ in range(STEPS_BETWEEN_CLOCK_LOOKS):
        piece = next(pieces, _NO_MORE)
        if piece is not None:
            return piece
    return None


def _discard_pieces(pieces: Iterator[Any]) -> Generator[None, None, None]:
    with suppress(TooManyElements):  # from a later piece; the request has failed already
        for _ in pieces:
            yield


class _PieceSize:
    """The number of elements in a piece: as many as fit a slice, by the time that earlier pieces
    took."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._size = max(1, size_max // 8)

    def __call__(self) -> int:
        return self._size

    def took(self, seconds: float) -> None:
        if seconds > SLICE_S:
            self._size = max(1, self._size // 2)
        elif seconds < SLICE_S / 3:
            self._size = min(self._size_max, self._size * 2)
