"""SyncGroup: answered with the member's assignment once the leader has sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.arguments import require_group_id
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply, client
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext

PROTOCOL_REQUIRED_FROM: Final = 5


def handle(context: BrokerContext, request: SyncGroupRequest) -> Any:
    if context.api_version >= PROTOCOL_REQUIRED_FROM and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return SyncGroupResponse(error_code=int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    reply = Reply(lambda error: SyncGroupResponse(error_code=int(error.code)))
    if reply.refused(context.require, Operation.READ, ResourceType.GROUP, request.group_id):
        return reply.result
    if reply.refused(require_group_id, request.group_id):
        return reply.result
    sender = client(context)
    context.services.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.sync(request, sender, reply, now, outbox),
    )
    return reply.result


HANDLER = Handler(on_broker=handle)
