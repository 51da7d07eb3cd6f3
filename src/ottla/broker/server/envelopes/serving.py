"""Serves the requests in the envelopes of brokers, as if they had come from the clients directly:
by the same handlers, in the same slices, within the same bounds."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.membership.controller_link import says_not_controller
from ottla.broker.server.context import RequestContext
from ottla.broker.server.dispatch import NotServed
from ottla.broker.server.envelopes.format import contents_of, sealed_answer
from ottla.broker.server.large_requests import Undecodable
from ottla.broker.server.pending import ClientTask, Pending, resolved
from ottla.broker.server.pieces import AT_ONCE_BYTES_MAX, AT_ONCE_ELEMENTS_MAX, weight_of
from ottla.logs import get_logger
from ottla.protocol.apis import APIS, FORWARDABLE
from ottla.protocol.errors import ErrorCode, KafkaError, MalformedMessage, TooManyElements
from ottla.protocol.messages.envelope import EnvelopeResponse

if TYPE_CHECKING:
    from ottla.broker.server.context import ControllerContext
    from ottla.broker.server.dispatch import Dispatcher, Route
    from ottla.broker.server.large_requests import Encoded, LargeRequests
    from ottla.protocol.headers import RequestHeader
    from ottla.protocol.messages.envelope import EnvelopeRequest

log = get_logger("ottla.server")


class _Inner(NamedTuple):
    """The request of an envelope, with what serves it."""

    header: RequestHeader
    route: Route
    context: ControllerContext


class EnvelopedRequests:
    def __init__(self, dispatcher: Dispatcher, large_requests: LargeRequests) -> None:
        """`dispatcher` has the routes of controllers."""
        self._dispatcher = dispatcher
        self._large_requests = large_requests

    def serve(
        self, context: ControllerContext, envelope: EnvelopeRequest
    ) -> ClientTask | Coroutine[Any, Any, EnvelopeResponse]:
        """Return the response to come; raises `KafkaError` if the envelope cannot be opened."""
        header, caller, frame, position = contents_of(envelope, context.caller)
        route = self._route(header)
        services = context.services
        if not services.metadata.is_leader:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        inner = _Inner(
            header,
            route,
            RequestContext(
                header.api_key,
                header.api_version,
                header.client_id,
                caller,
                services,
                header.correlation_id,
            ),
        )
        if len(frame) > AT_ONCE_BYTES_MAX:
            return ClientTask(self._serve_large(inner, frame, position))
        try:
            request = route.decode(frame, position, AT_ONCE_ELEMENTS_MAX)[0]
        except TooManyElements as error:
            if route.elements_max <= AT_ONCE_ELEMENTS_MAX:
                raise _unreadable(error) from None
            return ClientTask(self._serve_large(inner, frame, position))
        except MalformedMessage as error:
            raise _unreadable(error) from None
        if route.weighed_above is not None and weight_of(request) - 1 > route.weighed_above:
            return ClientTask(self._serve_heavy(inner, request))
        return self._serve_small(inner, request)

    def _route(self, header: RequestHeader) -> Route:
        try:
            route = self._dispatcher.find(header.api_key, header.api_version)
        except NotServed as error:
            if header.api_key in APIS and header.api_key not in FORWARDABLE:
                raise _not_forwardable(error.name) from None
            raise _unreadable(error) from None
        if header.api_key not in FORWARDABLE:
            raise _not_forwardable(route.name)
        return route

    async def _serve_small(self, inner: _Inner, request: Any) -> EnvelopeResponse:
        route = inner.route
        try:
            response = route.handle(inner.context, request)
            if inspect.isawaitable(response):
                response = await response
            if isinstance(response, Pending):
                response = await resolved(response)
        except Exception as error:  # a handler must never take the controller down
            response = _refusal(inner, request, error)
        if says_not_controller(response):
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        try:
            chunks = route.encode(response, AT_ONCE_ELEMENTS_MAX)
        except TooManyElements:
            chunks = (await self._large_requests.encode(route, response)).chunks
        return sealed_answer(inner.header, chunks)

    async def _serve_large(
        self, inner: _Inner, frame: memoryview, position: int
    ) -> EnvelopeResponse:
        return await self._sealed(
            inner, self._large_requests.serve_frame(inner.route, inner.context, frame, position)
        )

    async def _serve_heavy(self, inner: _Inner, request: Any) -> EnvelopeResponse:
        return await self._sealed(
            inner, self._large_requests.serve(inner.route, inner.context, request)
        )

    async def _sealed(
        self, inner: _Inner, serving: Coroutine[Any, Any, Encoded | None]
    ) -> EnvelopeResponse:
        try:
            encoded = await serving
        except Undecodable as error:
            raise _unreadable(error) from None
        except TooManyElements as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
        assert encoded is not None, "every API that can be forwarded is answered"
        return sealed_answer(inner.header, encoded.chunks)


def _refusal(inner: _Inner, request: Any, error: Exception) -> Any:
    """Return the response that tells the client of an error; raises it if there is none, and the
    envelope's response tells the broker."""
    route = inner.route
    if not isinstance(error, KafkaError):
        log.error(
            "a request failed inside the controller",
            api=route.name,
            peer=(inner.context.caller.host, inner.context.caller.port),
            exc_info=error,
        )
        error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    response = route.error_response(error)
    if response is None and route.refuse is not None:
        response = route.refuse(request, error)
    if response is None:
        raise error
    return response


def _not_forwardable(name: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST, f"API {name} is not enabled or is not eligible for forwarding"
    )


def _unreadable(error: Exception) -> KafkaError:
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Failed to parse forwarded request: {error}")
