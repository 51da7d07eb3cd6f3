"""ListPartitionReassignments: what is being moved."""

from __future__ import annotations

from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.server.context import RequestContext


async def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return await context.node.controller.list_partition_reassignments(request)
