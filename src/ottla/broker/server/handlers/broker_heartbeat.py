"""BrokerHeartbeat: a broker reports that it is alive, and the state it wants to be in."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


async def handle(
    context: ControllerContext, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    return await context.services.controller.heartbeat(request)


HANDLER = Handler(on_controller=handle)
