"""AssignReplicasToDirs: a broker reports which log dirs its replicas are in."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


async def handle(
    context: ControllerContext, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    return await context.services.controller.assign_replicas_to_dirs(request)


HANDLER = Handler(on_controller=handle)
