"""BrokerRegistration: a broker starts and wants to be part of the cluster."""

from __future__ import annotations

from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ottla.server.context import RequestContext


async def handle(
    context: RequestContext, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    return await context.node.controller.register_broker(request)
