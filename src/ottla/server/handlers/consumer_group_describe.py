"""ConsumerGroupDescribe: groups of the new protocol with members, epochs and assignments."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.server.handlers._coordinated import Gathering
from ottla.server.handlers._rights import ALL_ON_GROUP

if TYPE_CHECKING:
    from ottla.coordinator.group_shard import GroupShard
    from ottla.coordinator.outbox import Now, Outbox
    from ottla.server.context import RequestContext


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest) -> Any:
    reply = Gathering(partial(_combine, request.include_authorized_operations))
    for group_id in request.group_ids:
        token = reply.part(partial(_refusal, group_id))

        def step(
            shard: GroupShard,
            _now: Now,
            outbox: Outbox,
            group_id: str = group_id,
            token: Any = token,
        ) -> None:
            outbox.reply(token, shard.describe_consumer_group(group_id))

        context.node.coordinators.groups.request(group_id, token, step, writes=False)
    reply.close()
    return reply.result


def _refusal(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id, error_code=int(error.code), error_message=error.message
    )


def _combine(with_rights: bool, groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
    if with_rights:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_ON_GROUP
    return ConsumerGroupDescribeResponse(groups=groups)
