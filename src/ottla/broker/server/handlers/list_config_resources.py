"""ListConfigResources: the names of resources that have configs, or can have them."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.metadata.resources import ResourceType
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._replicas import reachable_brokers
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.runtime.pace import at_once, many_in_slices

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage
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

AT_ONCE_NAMES_MAX: Final = 1_000
"""Above this number of topics and configs the answer is built in slices."""


def handle(
    context: BrokerContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse | Coroutine[Any, Any, ListConfigResourcesResponse]:
    kinds = frozenset(request.resource_types) or frozenset(LISTED)
    if context.api_version < TYPES_FROM:
        kinds = frozenset({ResourceType.CLIENT_METRICS})
    if not kinds <= frozenset(LISTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = context.services.metadata.image
    steps = _answer(image, context.caller.listener_name, kinds)
    if len(image.topics) + len(image.configs) <= AT_ONCE_NAMES_MAX:
        return at_once(steps)
    return many_in_slices(context.services.runtime, steps)


def _answer(
    image: MetadataImage, listener: str, kinds: frozenset[int]
) -> Generator[None, None, ListConfigResourcesResponse]:
    response = ListConfigResourcesResponse()
    for kind in LISTED:
        if kind in kinds:
            for name in _names(image, listener, kind):
                resource = ConfigResource(resource_name=name, resource_type=kind)
                response.config_resources.append(resource)
                yield
    return response


def _names(image: MetadataImage, listener: str, kind: ResourceType) -> Iterable[str]:
    """Return all topics and brokers, but only those groups and subscriptions that have configs."""
    if kind == ResourceType.TOPIC:
        return image.topics
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return map(str, reachable_brokers(image, listener))
    return (name for of, name in image.configs if of == kind)


HANDLER = Handler(on_broker=handle)
