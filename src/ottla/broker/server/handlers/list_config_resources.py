"""ListConfigResources: the names of resources that have configs, or can have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.resources import ResourceType
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._replicas import reachable_brokers
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext

TYPES_FROM: Final = 1
"""Before this version the API was named after client metrics, and lists only their
subscriptions."""
LISTED: Final = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


def handle(
    context: BrokerContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    kinds = frozenset(request.resource_types) or frozenset(LISTED)
    if context.api_version < TYPES_FROM:
        kinds = frozenset({ResourceType.CLIENT_METRICS})
    if not kinds <= frozenset(LISTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in LISTED
            if kind in kinds
            for name in _names(context, kind)
        ]
    )


def _names(context: BrokerContext, kind: ResourceType) -> Iterable[str]:
    """Return all topics and brokers, but only those groups and subscriptions that have configs."""
    image = context.services.metadata.image
    if kind == ResourceType.TOPIC:
        return image.topics
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return map(str, reachable_brokers(image, context.caller.listener_name))
    return (name for of, name in image.configs if of == kind)


HANDLER = Handler(on_broker=handle)
