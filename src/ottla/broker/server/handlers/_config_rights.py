"""The right that a request about configs needs, resource by resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metadata.resources import ResourceType as ConfigOf
from ottla.protocol.errors import KafkaError, without_traceback
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import NodeContext

_OF_CLUSTER = (ConfigOf.BROKER, ConfigOf.BROKER_LOGGER, ConfigOf.CLIENT_METRICS)


def config_refusal(
    context: NodeContext, operation: Operation, config_of: int, name: str
) -> KafkaError | None:
    """Return the error if the client lacks the right. Types that do not exist need none: the next
    check refuses them."""
    try:
        if config_of == ConfigOf.TOPIC:
            context.require(operation, ResourceType.TOPIC, name)
        elif config_of == ConfigOf.GROUP:
            context.require(operation, ResourceType.GROUP, name)
        elif config_of in _OF_CLUSTER:
            context.require_on_cluster(operation)
    except KafkaError as error:
        return without_traceback(error)
    return None
