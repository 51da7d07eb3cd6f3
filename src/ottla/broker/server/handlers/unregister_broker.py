"""UnregisterBroker: remove a broker that does not come back."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


async def handle(
    context: ControllerContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    return await context.services.controller.unregister_broker(request)


HANDLER = Handler(on_broker=Forward(), on_controller=handle)
