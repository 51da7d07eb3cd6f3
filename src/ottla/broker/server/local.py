"""Requests of this node to its own controller: served by the same handlers, without a socket."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ottla.broker.server.caller import Caller
from ottla.broker.server.context import RequestContext
from ottla.broker.server.dispatch import serve_on_controller
from ottla.broker.server.pending import Pending, resolved
from ottla.protocol.apis import ApiKey, api
from ottla.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext
    from ottla.broker.server.services import ControllerServices
    from ottla.protocol.schema import Message


class LocalController:
    def __init__(self, services: ControllerServices, listener_name: str) -> None:
        """`listener_name` is the listener by which other nodes send such requests."""
        self._services = services
        self._itself = Caller(ANONYMOUS, ("127.0.0.1", 0), listener_name, is_this_node=True)

    def serve_for_client(self, context: BrokerContext, request: Message) -> Any:
        """Serve a request that a broker makes for its client, who is the caller here, too. Returns
        what the handler returns."""
        key = ApiKey(request.API_KEY or 0)
        inner = RequestContext(
            key,
            context.api_version,
            context.client_id,
            context.caller,
            self._services,
            context.correlation_id,
        )
        return serve_on_controller(key)(inner, request)

    async def ask_for_node(self, request: Message, version: int | None) -> Any:
        """Return the response to this node's own request; raises `KafkaError` as handlers do."""
        key = ApiKey(request.API_KEY or 0)
        spoken = api(key).latest_stable if version is None else version
        context = RequestContext(key, spoken, None, self._itself, self._services)
        result = serve_on_controller(key)(context, request)
        if inspect.isawaitable(result):
            result = await result
        return await resolved(result) if isinstance(result, Pending) else result
