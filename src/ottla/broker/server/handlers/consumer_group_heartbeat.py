"""ConsumerGroupHeartbeat: the only request of a member in the new group protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.consumer import hosting
from ottla.broker.coordinator.consumer.requests import check_heartbeat
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply, client
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext
    from ottla.protocol.errors import KafkaError


def handle(context: BrokerContext, request: ConsumerGroupHeartbeatRequest) -> Any:
    reply = Reply(_refusal)
    settings = context.services.coordinators.group_settings.consumer
    if reply.refused(check_heartbeat, request, settings, context.api_version):
        return reply.result
    sender = client(context)
    context.services.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: hosting.heartbeat(shard, request, sender, reply, now, outbox),
    )
    return reply.result


def _refusal(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=int(error.code), error_message=error.message)


HANDLER = Handler(on_broker=handle)
