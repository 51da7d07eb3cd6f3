"""BrokerRegistration: a starting broker registers with the cluster."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)


async def handle(
    context: ControllerContext, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    return await context.services.controller.register_broker(request)


HANDLER = Handler(on_controller=handle)
