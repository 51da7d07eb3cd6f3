"""AlterPartition: the leader of a partition changes its ISR."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


async def handle(
    context: ControllerContext, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    return await context.services.controller.alter_partition(request)


HANDLER = Handler(on_controller=handle)
