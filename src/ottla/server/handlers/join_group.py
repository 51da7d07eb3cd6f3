"""JoinGroup: answered when the group has gathered its members, or with the reason why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.server.handlers._coordinated import Reply, client

if TYPE_CHECKING:
    from ottla.protocol.errors import KafkaError
    from ottla.server.context import RequestContext

NULL_PROTOCOL_FROM: Final = 7


class _JoinReply(Reply):
    __slots__ = ("_api_version",)

    def __init__(self, request: JoinGroupRequest, api_version: int) -> None:
        def refuse(error: KafkaError) -> JoinGroupResponse:
            return JoinGroupResponse(error_code=int(error.code), member_id=request.member_id)

        super().__init__(refuse)
        self._api_version = api_version

    def resolve(self, response: Any) -> None:
        if response.error_code:
            response.protocol_name = None if self._api_version >= NULL_PROTOCOL_FROM else ""
        super().resolve(response)


def handle(context: RequestContext, request: JoinGroupRequest) -> Any:
    reply = _JoinReply(request, context.api_version)
    sender = client(context)
    context.node.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.join(request, sender, reply, now, outbox),
    )
    return reply.result
