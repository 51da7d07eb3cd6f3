"""LeaveGroup: members go, or an operator makes them go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.server.handlers._coordinated import Reply, client

if TYPE_CHECKING:
    from ottla.server.context import RequestContext

SEVERAL_FROM: Final = 3


class _LeaveReply(Reply):
    """Before version 3 a request names one member, and the answer is that member's."""

    __slots__ = ("_single",)

    def __init__(self, request: LeaveGroupRequest, api_version: int) -> None:
        super().__init__(lambda error: _refuse(request, error))
        self._single = api_version < SEVERAL_FROM

    def resolve(self, response: Any) -> None:
        if self._single:
            code = response.error_code or next((one.error_code for one in response.members), 0)
            response = LeaveGroupResponse(error_code=code)
        super().resolve(response)


def handle(context: RequestContext, request: LeaveGroupRequest) -> Any:
    if context.api_version < SEVERAL_FROM:
        request.members = [MemberIdentity(member_id=request.member_id)]
    reply = _LeaveReply(request, context.api_version)
    sender = client(context)
    context.node.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.leave(request, sender, reply, now, outbox),
    )
    return reply.result


def _refuse(request: LeaveGroupRequest, error: KafkaError) -> LeaveGroupResponse:
    """Of a group that does not exist nobody is a member; everything else concerns the request."""
    if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
        return LeaveGroupResponse(error_code=int(error.code))
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                error_code=int(error.code),
            )
            for one in request.members
        ]
    )
