"""Finds the code for a request: one route for each API and version that a kind of listener serves.

Clients and brokers connect to broker listeners; controllers, and brokers that need a controller,
connect to controller listeners. Every broker forwards the requests that only the active controller
can serve.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator
from functools import cache
from typing import TYPE_CHECKING, Any

from ottla.broker.server.contract import (
    BROKERS,
    CONTROLLERS,
    Forward,
    ServeOnBroker,
    ServeOnController,
    handler_of,
    served_on,
)
from ottla.broker.server.envelopes.forwarding import forwarding
from ottla.broker.server.guarding import guarded
from ottla.broker.server.pieces import LONG_ANSWERS, PIECE_ELEMENTS_MAX, elements_max, split_of
from ottla.protocol.apis import APIS, ApiKey, api
from ottla.protocol.codec import decoder, decoder_in_steps, encoder, encoder_in_steps
from ottla.protocol.decoding import holds_records
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.server.figures.requests import ApiFigures, RequestFigures


@cache
def carries_records(key: int) -> bool:
    """True if requests of this API carry records, so they may be large."""
    try:
        return holds_records(api(ApiKey(key)).request_class())
    except ValueError:
        return False


def serve_on_broker(key: ApiKey) -> ServeOnBroker:
    handler = handler_of(key)
    serve = handler.on_broker
    assert serve is not None, f"brokers do not serve {key.name}"
    if isinstance(serve, Forward):
        return forwarding(serve, handler.refuse)
    return guarded(key, serve, handler.refuse)


def serve_on_controller(key: ApiKey) -> ServeOnController:
    handler = handler_of(key)
    serve = handler.on_controller
    assert serve is not None, f"controllers do not serve {key.name}"
    return guarded(key, serve, handler.refuse)


def _is_never_exempt(_context: Any, _request: Any) -> bool:
    return False


class Route:
    """Everything needed to serve one version of one API, looked up once."""

    __slots__ = (
        "_error_fields",
        "_request_class",
        "_version",
        "decode",
        "elements_max",
        "encode",
        "figures",
        "handle",
        "is_exempt",
        "long_answer",
        "name",
        "refuse",
        "request_is_flexible",
        "response_class",
        "response_is_flexible",
        "split",
        "weighed_above",
    )

    def __init__(self, key: ApiKey, version: int, kind: str) -> None:
        declared = api(key)
        self.name: str = declared.name
        self.figures: ApiFigures | None = None
        """Counts and measures its requests, if anybody asks for the metrics."""
        # Contexts have the services that the kind of listener needs, which types cannot tell.
        self.handle: Callable[[Any, Any], Any] = (
            serve_on_broker(key) if kind == BROKERS else serve_on_controller(key)
        )
        self.is_exempt: Callable[[Any, Any], bool] = handler_of(key).is_exempt or _is_never_exempt
        """True for a request that no quota counts for."""
        self.refuse = handler_of(key).refuse
        """Builds a response with an error for each element of a request that is not served."""
        self._version = version
        self._request_class = declared.request_class()
        self.decode: Callable[..., Any] = decoder(self._request_class, version)
        self.long_answer = LONG_ANSWERS.get(key)
        self.split = split_of(key, self._request_class, version)
        self.elements_max = elements_max(key, of_quorum=kind == CONTROLLERS)
        self.weighed_above: int | None = None
        """The number of elements above which a request is served in slices, for APIs whose elements
        are costly; None for all others."""
        if self.split is not None and self.split.piece_max < PIECE_ELEMENTS_MAX:
            self.weighed_above = self.split.piece_max
        self.response_class: type[Any] = declared.response_class()
        self._error_fields = {
            field.name for field in self.response_class.FIELDS if field.exists_in(version)
        } & {"error_code", "error_message"}
        self.encode: Callable[..., list[Any]] = encoder(self.response_class, version)
        flexible_from = declared.flexible_from
        self.request_is_flexible = flexible_from is not None and version >= flexible_from
        # A client must be able to read the answer to ApiVersions before it has negotiated versions.
        self.response_is_flexible = self.request_is_flexible and key != ApiKey.API_VERSIONS

    def decode_in_steps(
        self, frame: memoryview, position: int, elements_max: int
    ) -> Generator[None, None, Any]:
        steps: Generator[None, None, Any] = decoder_in_steps(self._request_class, self._version)(
            frame, position, elements_max
        )
        return steps

    def encode_in_steps(self, response: Any) -> Generator[None, None, list[Any]]:
        steps: Generator[None, None, list[Any]] = encoder_in_steps(
            self.response_class, self._version
        )(response)
        return steps

    def error_response(self, error: Exception) -> Any:
        """Return a response that consists of one error. None if this version of the API has no
        field for it: the client would take it for a success with nothing in it."""
        if "error_code" not in self._error_fields:
            return None
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        response = self.response_class(error_code=int(code))
        if "error_message" in self._error_fields and isinstance(error, KafkaError):
            response.error_message = error.message
        return response


class UnsupportedApiVersions(Route):
    """ApiVersions in a version that is not served. Answered in the format of version 0, with error
    35 and the served versions, so that the client can retry with one of them."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(ApiKey.API_VERSIONS, 0, BROKERS)
        module = importlib.import_module("ottla.broker.server.handlers.api_versions")
        self.decode = lambda frame, position, left: (None, len(frame))
        self.handle = lambda context, request: module.unsupported_version(context)


class NotServed(Exception):
    """Raised for an API, or a version of it, that this kind of listener does not serve."""

    def __init__(self, key: int, version: int) -> None:
        self.name = APIS[key].name if key in APIS else f"unknown API {key}"
        self.version = version
        super().__init__(f"{self.name} version {version} is not served; ApiVersions lists what is")


class Dispatcher:
    """The routes of one kind of listener."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.routes: dict[int, Route] = {}
        self.figures: RequestFigures | None = None
        """Count and measure requests; None if nobody asks for the metrics. Set it before anything
        is served."""

    def find(self, key: int, version: int) -> Route:
        """Return the route of a request; raises `NotServed` if there is none."""
        return self.routes.get(key << 16 | version) or self.route(key, version)

    def route(self, key: int, version: int) -> Route:
        """Build the route on first use; raises `NotServed` if there is none."""
        try:
            served = ApiKey(key)
            lowest, highest = api(served).versions if served in served_on(self.kind) else (0, -1)
        except ValueError:
            lowest, highest = 0, -1
        if not lowest <= version <= highest:
            if key == ApiKey.API_VERSIONS:
                return self._measured(UnsupportedApiVersions())
            raise NotServed(key, version)
        route = self.routes[key << 16 | version] = Route(served, version, self.kind)
        return self._measured(route)

    def _measured(self, route: Route) -> Route:
        if self.figures is not None:
            route.figures = self.figures.of(route.name)
        return route
