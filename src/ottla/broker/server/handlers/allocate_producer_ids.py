"""AllocateProducerIds: allocate a block of producer ids to a broker."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


async def handle(
    context: ControllerContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    return await context.services.controller.allocate_producer_ids(request)


HANDLER = Handler(on_controller=handle)
