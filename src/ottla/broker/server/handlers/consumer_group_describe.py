"""ConsumerGroupDescribe: groups of the new protocol with members, epochs and assignments."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.consumer import hosting
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._authorized_operations import ALL_ON_GROUP
from ottla.broker.server.handlers._coordinated import Gathering
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from ottla.broker.coordinator.group_shard import GroupShard
    from ottla.broker.coordinator.outbox import Now, Outbox
    from ottla.broker.server.context import BrokerContext


def handle(context: BrokerContext, request: ConsumerGroupDescribeRequest) -> Any:
    reply = Gathering(partial(_combine, request.include_authorized_operations))
    for group_id in request.group_ids:
        token = reply.part(partial(_refusal, group_id))
        if not group_id:
            token.fail(KafkaError(ErrorCode.INVALID_GROUP_ID))
            continue

        def step(
            shard: GroupShard,
            _now: Now,
            outbox: Outbox,
            group_id: str = group_id,
            token: Any = token,
        ) -> None:
            outbox.reply(token, hosting.describe(shard, group_id))

        context.services.coordinators.groups.request(group_id, token, step, writes=False)
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


HANDLER = Handler(on_broker=handle)
