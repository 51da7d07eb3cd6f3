"""Forwarding: requests that only the active controller can serve go from any broker to it.

They are sent on in envelopes (see `format`), in the version that the client speaks, so
that nothing in them changes on the way and the controller knows who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.membership.controller_link import LANE
from ottla.broker.server.context import RequestContext
from ottla.broker.server.envelopes.format import answer_in, sealed
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext
    from ottla.broker.server.contract import Forward, Refuse, ServeOnBroker
    from ottla.broker.server.local import LocalController
    from ottla.protocol.schema import Message


def forwarding(how: Forward, refuse: Refuse | None) -> ServeOnBroker:
    """Return the function that serves an API of the controller on a broker."""

    async def ask(context: BrokerContext, request: Message) -> Any:
        if how.answer_alone is not None:
            try:
                return await _forward(context, request, how.controller_wait_ms_max, lane=how.lane)
            except KafkaError as error:
                return how.answer_alone(context, error)
        response = await _forward_or_refuse(context, request, refuse, lane=how.lane)
        if how.settle is not None:
            await how.settle(context, request, response)
        return response

    def serve(context: BrokerContext, request: Message) -> Any:
        local = _active_here(context)
        return ask(context, request) if local is None else local.serve_for_client(context, request)

    return serve


async def ask_controller(context: BrokerContext, request: Message, refuse: Refuse) -> Any:
    """Return the active controller's response to a request that this broker made from that of its
    client."""
    local = _active_here(context)
    if local is not None:
        return await local.serve_for_client(context, request)
    return await _forward_or_refuse(context, request, refuse)


async def ask_for_client(context: BrokerContext, request: Message) -> Any:
    """Return the active controller's response to a request that this broker makes because its
    client needs something; raises `KafkaError`."""
    key = ApiKey(request.API_KEY or 0)
    services, version = context.services, api(key).latest_stable
    known = services.controller_link.controller_versions() or {}
    if key in known:
        version = min(version, known[key][1])
    made = RequestContext(
        key, version, context.client_id, context.caller, services, context.correlation_id
    )
    return await _forward(made, request, lane=LANE)


def _active_here(context: BrokerContext) -> LocalController | None:
    """Return the controller of this node, if it is the active one."""
    services = context.services
    return services.local_controller if services.metadata.is_leader else None


async def _forward_or_refuse(
    context: BrokerContext, request: Message, refuse: Refuse | None, *, lane: str = LANE
) -> Any:
    try:
        return await _forward(context, request, lane=lane)
    except KafkaError as error:
        if refuse is None:
            raise
        return refuse(request, error)


async def _forward(
    context: BrokerContext, request: Message, timeout_ms: int | None = None, *, lane: str
) -> Any:
    return await context.services.controller_link.ask(
        sealed(context, request),
        timeout_ms=timeout_ms,
        lane=lane,
        read=lambda answer: answer_in(answer, context.api_key, context.api_version),
    )
