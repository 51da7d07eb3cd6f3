"""ConsumerGroupHeartbeat: the only request of a member in the new group protocol."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.consumer import hosting
from ottla.broker.coordinator.consumer.requests import check_heartbeat
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply, client
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext
    from ottla.protocol.errors import KafkaError


def handle(context: BrokerContext, request: ConsumerGroupHeartbeatRequest) -> Any:
    reply = Reply(_refusal)
    if reply.refused(context.require, Operation.READ, ResourceType.GROUP, request.group_id):
        return reply.result
    if reply.refused(_require_topics, context, request):
        return reply.result
    settings = context.services.coordinators.group_settings.consumer
    if reply.refused(check_heartbeat, request, settings, context.api_version):
        return reply.result
    sender = client(context)
    may_describe = None if context.services.authorizer is None else partial(_may_describe, context)
    context.services.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: hosting.heartbeat(
            shard, request, sender, reply, now, outbox, may_describe=may_describe
        ),
    )
    return reply.result


def _require_topics(context: BrokerContext, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise `KafkaError` if the member subscribes to a topic that it may not describe. Members name
    their topics when they join and when they change, not in each heartbeat."""
    for name in dict.fromkeys(request.subscribed_topic_names or ()):
        context.require(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _may_describe(context: BrokerContext, topic: str) -> bool:
    return context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, quiet=True)


def _refusal(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=int(error.code), error_message=error.message)


HANDLER = Handler(on_broker=handle)
