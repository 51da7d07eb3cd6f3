"""ControllerRegistration: a controller registers its endpoints and features."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


async def handle(
    context: ControllerContext, request: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    return await context.services.controller.register_controller(request)


HANDLER = Handler(on_controller=handle)
