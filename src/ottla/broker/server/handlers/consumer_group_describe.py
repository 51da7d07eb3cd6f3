"""ConsumerGroupDescribe: groups of the new protocol with members, epochs and assignments."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.consumer import hosting
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._authorized_operations import authorized_operations
from ottla.broker.server.handlers._coordinated import Gathering
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.coordinator.group_shard import GroupShard
    from ottla.broker.coordinator.outbox import Now, Outbox
    from ottla.broker.server.context import BrokerContext


def handle(context: BrokerContext, request: ConsumerGroupDescribeRequest) -> Any:
    reply = Gathering(partial(_combine, context, request.include_authorized_operations))
    for group_id in request.group_ids:
        token = reply.part(partial(_refusal, group_id))
        if not context.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            token.fail(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
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


def _combine(
    context: BrokerContext, with_rights: bool, groups: list[DescribedGroup]
) -> ConsumerGroupDescribeResponse:
    if with_rights:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    context, ResourceType.GROUP, group.group_id
                )
    if context.services.authorizer is not None:
        visible: dict[str, bool] = {}
        groups = [
            group if _is_visible(context, group, visible) else _hidden(group) for group in groups
        ]
    return ConsumerGroupDescribeResponse(groups=groups)


def _is_visible(context: BrokerContext, group: DescribedGroup, visible: dict[str, bool]) -> bool:
    """True if the client may describe all topics that are assigned to members. `visible` keeps the
    decisions, topic by topic."""
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                name = topic.topic_name
                if name not in visible:
                    visible[name] = context.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
                if not visible[name]:
                    return False
    return True


def _hidden(group: DescribedGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        error_message="The group has described topic(s) that the client is not authorized to "
        "describe.",
    )


HANDLER = Handler(on_broker=handle)
