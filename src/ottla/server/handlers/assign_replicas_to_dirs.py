"""AssignReplicasToDirs: in which folder of a broker its replicas lie."""

from __future__ import annotations

from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.server.context import RequestContext


async def handle(
    context: RequestContext, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    return await context.node.controller.assign_replicas_to_dirs(request)
