"""DeleteGroups: groups without members, with all they have committed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ottla.server.handlers._coordinated import Gathering

if TYPE_CHECKING:
    from ottla.coordinator.group_shard import GroupShard
    from ottla.coordinator.outbox import Now, Outbox
    from ottla.server.context import RequestContext


def handle(context: RequestContext, request: DeleteGroupsRequest) -> Any:
    reply = Gathering(lambda parts: DeleteGroupsResponse(results=parts))
    for group_id in dict.fromkeys(request.groups_names):
        token = reply.part(partial(_refusal, group_id))

        def step(
            shard: GroupShard,
            now: Now,
            outbox: Outbox,
            group_id: str = group_id,
            token: Any = token,
        ) -> None:
            shard.delete_group(group_id, token, now, outbox)

        context.node.coordinators.groups.request(group_id, token, step)
    reply.close()
    return reply.result


def _refusal(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=int(error.code))
