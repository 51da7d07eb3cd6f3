"""Changes of configurations on their way through a broker.

Loggers are the broker's own and change here and now. A setting of a single broker must be sent to
that broker, which alone can tell whether it works. All the rest is the controller's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.controller.alter_configs import Outcome
from ottla.controller.config_rules import check_is_node
from ottla.metadata.resources import ResourceType
from ottla.protocol.errors import KafkaError
from ottla.server.forwarding import forward

if TYPE_CHECKING:
    from ottla.server.context import RequestContext

Change = Callable[[Any], Outcome]
"""Makes the change of one resource of a request here; what became of it."""


async def through_broker(
    context: RequestContext,
    request: Any,
    change_logger: Change | None,
    handle_on_controller: Callable[[RequestContext, Any], Awaitable[Any]],
    refuse: Callable[[Any, KafkaError], Any],
) -> Any:
    """The answer to the whole request, put together in its order."""
    here = [_here(context, resource, change_logger) for resource in request.resources]
    rest = [resource for resource, done in zip(request.resources, here, strict=True) if not done]
    part = type(request)(resources=rest, validate_only=request.validate_only)
    if context.node.metadata.is_leader or not rest:
        answer = await handle_on_controller(context, part)
    else:
        answer = await forward(context, part, refuse)
    told = iter(answer.responses)
    answer.responses = [
        result(type(answer), resource, done[0]) if done else next(told)
        for resource, done in zip(request.resources, here, strict=True)
    ]
    return answer


def _here(
    context: RequestContext, resource: Any, change_logger: Change | None
) -> tuple[Outcome] | None:
    """What became of a resource that is dealt with here; None for those of the controller."""
    if resource.resource_type == ResourceType.BROKER_LOGGER and change_logger is not None:
        return (change_logger(resource),)
    if resource.resource_type == ResourceType.BROKER and resource.resource_name:
        try:
            check_is_node(resource.resource_name, context.node.node_id)
        except KafkaError as error:
            return (error,)
    return None


def results(response_class: Any, resources: Sequence[Any], outcomes: Sequence[Outcome]) -> Any:
    return response_class(
        responses=[
            result(response_class, resource, outcome)
            for resource, outcome in zip(resources, outcomes, strict=True)
        ]
    )


def result(response_class: Any, resource: Any, outcome: Outcome) -> Any:
    """One resource's part of the answer."""
    return _result_class(response_class)(
        error_code=outcome.code if outcome else 0,
        error_message=outcome.message if outcome else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _result_class(response_class: Any) -> Any:
    field = next(field for field in response_class.FIELDS if field.name == "responses")
    return field.struct_class
