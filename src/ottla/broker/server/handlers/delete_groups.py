"""DeleteGroups: delete groups without members, and their committed offsets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Gathering
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.coordinator.group_shard import GroupShard
    from ottla.broker.coordinator.outbox import Now, Outbox
    from ottla.broker.server.context import BrokerContext


def handle(context: BrokerContext, request: DeleteGroupsRequest) -> Any:
    reply = Gathering(lambda parts: DeleteGroupsResponse(results=parts))
    for group_id in dict.fromkeys(request.groups_names):
        token = reply.part(partial(_refusal, group_id))
        if not context.may(Operation.DELETE, ResourceType.GROUP, group_id):
            token.fail(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue

        def step(
            shard: GroupShard,
            now: Now,
            outbox: Outbox,
            group_id: str = group_id,
            token: Any = token,
        ) -> None:
            shard.delete_group(group_id, token, now, outbox)

        context.services.coordinators.groups.request(group_id, token, step)
    reply.close()
    return reply.result


def _refusal(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=int(error.code))


HANDLER = Handler(on_broker=handle)
