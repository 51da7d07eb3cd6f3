"""AlterPartition: the leader of a partition says who is in sync."""

from __future__ import annotations

from ottla.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.server.context import RequestContext


async def handle(context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    return await context.node.controller.alter_partition(request)
