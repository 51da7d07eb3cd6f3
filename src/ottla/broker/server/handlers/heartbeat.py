"""Heartbeat of a member of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.arguments import require_group_id
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply, client
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext


def handle(context: BrokerContext, request: HeartbeatRequest) -> Any:
    reply = Reply(_refuse)
    if reply.refused(context.require, Operation.READ, ResourceType.GROUP, request.group_id):
        return reply.result
    if reply.refused(require_group_id, request.group_id):
        return reply.result
    sender = client(context)
    context.services.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.heartbeat(request, sender, reply, now, outbox),
        writes=False,
    )
    return reply.result


def _refuse(error: KafkaError) -> HeartbeatResponse:
    """Answer without an error while the group is being loaded: no session can expire then, so the
    member need not do anything."""
    calm = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=int(ErrorCode.NONE if calm else error.code))


HANDLER = Handler(on_broker=handle)
