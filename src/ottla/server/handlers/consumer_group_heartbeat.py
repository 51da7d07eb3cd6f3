"""ConsumerGroupHeartbeat: all that a member of the new group protocol ever sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.server.handlers._coordinated import Reply, client

if TYPE_CHECKING:
    from ottla.protocol.errors import KafkaError
    from ottla.server.context import RequestContext


def handle(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Any:
    reply = Reply(_refusal)
    sender = client(context)
    context.node.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.consumer_heartbeat(request, sender, reply, now, outbox),
    )
    return reply.result


def _refusal(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=int(error.code), error_message=error.message)
