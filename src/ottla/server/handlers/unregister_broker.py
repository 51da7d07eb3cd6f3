"""UnregisterBroker: forget a broker that does not come back."""

from __future__ import annotations

from ottla.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ottla.server.context import RequestContext


async def handle(
    context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    return await context.node.controller.unregister_broker(request)
