"""ListPartitionReassignments: the reassignments in progress."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


async def handle(
    context: ControllerContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return await context.services.controller.list_partition_reassignments(request)


HANDLER = Handler(on_broker=Forward(), on_controller=handle)
