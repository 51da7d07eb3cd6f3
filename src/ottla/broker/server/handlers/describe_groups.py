"""DescribeGroups: classic groups with their members."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.classic import hosting
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._authorized_operations import authorized_operations
from ottla.broker.server.handlers._coordinated import Gathering
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.coordinator.group_shard import GroupShard
    from ottla.broker.coordinator.outbox import Now, Outbox
    from ottla.broker.server.context import BrokerContext

ERROR_MESSAGE_FROM = 6


def handle(context: BrokerContext, request: DescribeGroupsRequest) -> Any:
    version = context.api_version
    reply = Gathering(partial(_combine, context, request.include_authorized_operations))
    for group_id in request.groups:
        token = reply.part(partial(_refusal, group_id, version))
        if not context.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            token.fail(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue

        def step(
            shard: GroupShard,
            _now: Now,
            outbox: Outbox,
            group_id: str = group_id,
            token: Any = token,
        ) -> None:
            outbox.reply(token, hosting.describe(shard, group_id, version))

        context.services.coordinators.groups.request(group_id, token, step, writes=False)
    reply.close()
    return reply.result


def _refusal(group_id: str, version: int, error: KafkaError) -> DescribedGroup:
    described = DescribedGroup(group_id=group_id, error_code=int(error.code))
    if version >= ERROR_MESSAGE_FROM:
        described.error_message = error.message
    return described


def _combine(
    context: BrokerContext, with_rights: bool, groups: list[DescribedGroup]
) -> DescribeGroupsResponse:
    if with_rights:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    context, ResourceType.GROUP, group.group_id
                )
    return DescribeGroupsResponse(groups=groups)


HANDLER = Handler(on_broker=handle)
