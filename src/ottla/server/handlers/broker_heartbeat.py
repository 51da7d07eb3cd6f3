"""BrokerHeartbeat: a broker lives, and says what it wants."""

from __future__ import annotations

from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.server.context import RequestContext


async def handle(
    context: RequestContext, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    return await context.node.controller.heartbeat(request)
