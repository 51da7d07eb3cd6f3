"""ControllerRegistration: where a controller is found and what it can do."""

from __future__ import annotations

from ottla.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.server.context import RequestContext


async def handle(
    context: RequestContext, request: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    return await context.node.controller.register_controller(request)
