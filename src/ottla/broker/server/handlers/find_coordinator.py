"""FindCoordinator: find the leader of the partition that a group or transactional id belongs to.

The internal topic is created on the first request, and the answer waits for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.hashing import partition_of
from ottla.broker.metadata.image import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._replicas import reachable_brokers
from ottla.protocol.errors import ErrorCode, KafkaError, without_traceback
from ottla.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS: Final = {GROUP: GROUPS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC}
RESOURCES: Final = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}
BATCHED_FROM = 4
SHARE_FROM = 6
NO_NODE = -1


async def handle(
    context: BrokerContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    batched = context.api_version >= BATCHED_FROM
    keys = request.coordinator_keys if batched else [request.key]
    refused = _not_described(context, request.key_type, keys)
    try:
        topic = _topic(context, request.key_type)
        if len(refused) < len(set(keys)):
            await context.services.coordinators.ensure_topic(topic)
        found = [
            _refusal(key, refused[key]) if key in refused else _find(context, topic, key)
            for key in keys
        ]
    except KafkaError as error:
        found = [_refusal(key, refused.get(key, error)) for key in keys]
    if batched:
        return FindCoordinatorResponse(coordinators=found)
    one = found[0]
    return FindCoordinatorResponse(
        error_code=one.error_code,
        # Up to the version with several keys, Kafka sends the name of the code on success too.
        error_message=one.error_message if one.error_code else ErrorCode.NONE.name,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _not_described(context: BrokerContext, key_type: int, keys: list[str]) -> dict[str, KafkaError]:
    """Return the groups or transactional ids that the client may not describe."""
    resource_type = RESOURCES.get(key_type)
    if resource_type is None or context.services.authorizer is None:
        return {}
    errors = {}
    for key in dict.fromkeys(keys):
        try:
            context.require(Operation.DESCRIBE, resource_type, key)
        except KafkaError as error:
            errors[key] = without_traceback(error)
    return errors


def _topic(context: BrokerContext, key_type: int) -> str:
    known = key_type in TOPICS or (key_type == SHARE and context.api_version >= SHARE_FROM)
    if not known:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"coordinator type {key_type} is unknown")
    if key_type == SHARE:
        context.require_on_cluster(Operation.CLUSTER_ACTION)
    if key_type not in TOPICS:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return TOPICS[key_type]


def _find(context: BrokerContext, topic: str, key: str) -> Coordinator:
    image = context.services.metadata.image
    listener = context.caller.listener_name
    partitions = image.topics[topic].partitions
    leader = partitions[partition_of(key, len(partitions))].leader
    broker = reachable_brokers(image, listener).get(leader)
    if broker is None:
        return _refusal(key, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    endpoint = broker.endpoints[listener]
    return Coordinator(key=key, node_id=broker.id, host=endpoint.host, port=endpoint.port)


def _refusal(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=NO_NODE,
        host="",
        port=NO_NODE,
        error_code=int(error.code),
        error_message=error.message,
    )


HANDLER = Handler(on_broker=handle)
