"""Heartbeat of a member of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.server.handlers._coordinated import Reply, client

if TYPE_CHECKING:
    from ottla.server.context import RequestContext


def handle(context: RequestContext, request: HeartbeatRequest) -> Any:
    reply = Reply(_refuse)
    sender = client(context)
    context.node.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.heartbeat(request, sender, reply, now, outbox),
        writes=False,
    )
    return reply.result


def _refuse(error: KafkaError) -> HeartbeatResponse:
    """While the group is still being loaded nobody's session can end: the member may be calm."""
    calm = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=int(ErrorCode.NONE if calm else error.code))
