"""AlterPartitionReassignments: start or cancel moves of replicas."""

from __future__ import annotations

from typing import Final

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

LANE: Final = "moves"
"""The controller may wait for heartbeats before it answers; other requests do not wait with it."""


async def handle(
    context: ControllerContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    return await context.services.controller.alter_partition_reassignments(request)


HANDLER = Handler(on_broker=Forward(lane=LANE), on_controller=handle)
