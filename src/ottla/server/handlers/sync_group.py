"""SyncGroup: answered with the member's assignment when the leader has told it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.server.handlers._coordinated import Reply, client

if TYPE_CHECKING:
    from ottla.server.context import RequestContext

PROTOCOL_REQUIRED_FROM: Final = 5


def handle(context: RequestContext, request: SyncGroupRequest) -> Any:
    if context.api_version >= PROTOCOL_REQUIRED_FROM and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return SyncGroupResponse(error_code=int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    reply = Reply(lambda error: SyncGroupResponse(error_code=int(error.code)))
    sender = client(context)
    context.node.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.sync(request, sender, reply, now, outbox),
    )
    return reply.result
