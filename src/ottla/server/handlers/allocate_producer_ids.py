"""AllocateProducerIds: a block of ids for the producers of one broker."""

from __future__ import annotations

from ottla.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.server.context import RequestContext


async def handle(
    context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    return await context.node.controller.allocate_producer_ids(request)
