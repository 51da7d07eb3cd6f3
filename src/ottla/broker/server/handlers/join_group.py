"""JoinGroup: answered when all members have joined, or with an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.arguments import check_join_arguments
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply, client
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext
    from ottla.protocol.errors import KafkaError

NULL_PROTOCOL_FROM: Final = 7


def handle(context: BrokerContext, request: JoinGroupRequest) -> Any:
    reply = _reply(request, context.api_version)
    if reply.refused(context.require, Operation.READ, ResourceType.GROUP, request.group_id):
        return reply.result
    settings = context.services.coordinators.group_settings.classic
    if reply.refused(check_join_arguments, request, settings):
        return reply.result
    sender = client(context)
    context.services.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.join(request, sender, reply, now, outbox),
    )
    return reply.result


def _reply(request: JoinGroupRequest, api_version: int) -> Reply:
    def refuse(error: KafkaError) -> JoinGroupResponse:
        return JoinGroupResponse(error_code=int(error.code), member_id=request.member_id)

    def shape(response: JoinGroupResponse) -> JoinGroupResponse:
        if response.error_code:
            response.protocol_name = None if api_version >= NULL_PROTOCOL_FROM else ""
        return response

    return Reply(refuse, shape)


HANDLER = Handler(on_broker=handle)
