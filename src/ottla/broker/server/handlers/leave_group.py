"""LeaveGroup: members leave, or an operator removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.arguments import require_group_id
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply, client
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext

SEVERAL_FROM: Final = 3


def handle(context: BrokerContext, request: LeaveGroupRequest) -> Any:
    is_single = context.api_version < SEVERAL_FROM
    if is_single:
        request.members = [MemberIdentity(member_id=request.member_id)]
    reply = Reply(lambda error: _refuse(request, error), _of_one_member if is_single else None)
    if reply.refused(context.require, Operation.READ, ResourceType.GROUP, request.group_id):
        return reply.result
    if reply.refused(require_group_id, request.group_id):
        return reply.result
    sender = client(context)
    context.services.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.leave(request, sender, reply, now, outbox),
    )
    return reply.result


def _of_one_member(response: LeaveGroupResponse) -> LeaveGroupResponse:
    """Before version 3 a request names one member, and its result is the answer."""
    code = response.error_code or next((one.error_code for one in response.members), 0)
    return LeaveGroupResponse(error_code=code)


def _refuse(request: LeaveGroupRequest, error: KafkaError) -> LeaveGroupResponse:
    """Refuse each member if the group does not exist; other errors concern the whole request."""
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


HANDLER = Handler(on_broker=handle)
