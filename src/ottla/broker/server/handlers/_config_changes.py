"""Config changes on their way through a broker.

Loggers belong to the broker and are changed here. A setting of a single broker must be sent to that
broker, because only it can tell whether the setting works. All other changes are made by the
controller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.broker.controller.alter_configs import ConfigChange, Outcome, applied, check_keys
from ottla.broker.controller.config_rules import check_is_node, refuse_config
from ottla.broker.metadata.resources import CLUSTER_DEFAULT, ResourceType
from ottla.broker.server.envelopes.forwarding import ask_controller
from ottla.broker.server.handlers._config_rights import config_refusal
from ottla.config.dynamic import validate_broker_overrides
from ottla.config.reconfigure import changes_tls, check_reconfiguration
from ottla.protocol.errors import ErrorCode, KafkaError, without_traceback
from ottla.security.rights import Operation

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext, ControllerContext

Change = Callable[[Any], Outcome]
"""Applies the change of one resource on this broker and returns its outcome."""


async def through_broker(
    context: BrokerContext,
    request: Any,
    as_change: Callable[[Any], ConfigChange],
    change_logger: Change | None,
    response_class: Callable[[], Any],
    refuse: Callable[[Any, KafkaError], Any],
) -> Any:
    """Serve the whole request and return the results in its order."""
    here = [_here(context, resource, as_change, change_logger) for resource in request.resources]
    rest = [resource for resource, done in zip(request.resources, here, strict=True) if not done]
    part = type(request)(resources=rest, validate_only=request.validate_only)
    answer = await ask_controller(context, part, refuse) if rest else response_class()
    told = iter(answer.responses)
    answer.responses = [
        result(type(answer), resource, done[0]) if done else next(told)
        for resource, done in zip(request.resources, here, strict=True)
    ]
    return answer


def _here(
    context: BrokerContext,
    resource: Any,
    as_change: Callable[[Any], ConfigChange],
    change_logger: Change | None,
) -> tuple[Outcome] | None:
    """Return the outcome for a resource that this broker handles itself; None if the controller
    handles it."""
    if resource.resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        refusal = config_refusal(
            context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name
        )
        if refusal is not None:
            return (refusal,)
    if resource.resource_type == ResourceType.BROKER_LOGGER and change_logger is not None:
        return (change_logger(resource),)
    if resource.resource_type == ResourceType.BROKER:
        try:
            if resource.resource_name:
                check_is_node(resource.resource_name, context.services.node_id)
            _check_broker_change(context, as_change(resource))
        except KafkaError as error:
            return (without_traceback(error),)
    return None


def _check_broker_change(context: BrokerContext, change: ConfigChange) -> None:
    """Raise if this broker could not apply the change while it runs."""
    services = context.services
    image = services.metadata.image
    check_keys(change.keys)
    after = applied(change, image.config(change.resource))
    for_all = change.resource == CLUSTER_DEFAULT
    code = ErrorCode.INVALID_REQUEST
    refuse_config(code, validate_broker_overrides, after, cluster_default=for_all)
    own = (ResourceType.BROKER, str(services.node_id))
    then = services.config.with_dynamic(
        after if for_all else image.config(CLUSTER_DEFAULT),
        image.config(own) if for_all else after,
    )
    told = [endpoint.name for endpoint in services.endpoints]
    refuse_config(code, check_reconfiguration, services.config, then, told)
    if changes_tls(services.config, then, [key for key, _, _ in change.keys]):
        refuse_config(code, services.live_config.check, then)


async def on_controller(
    context: ControllerContext,
    resources: Sequence[Any],
    as_change: Callable[[Any], ConfigChange],
    *,
    validate_only: bool,
) -> list[Outcome]:
    """Change the resources that the client may change. Returns the outcomes of all."""
    outcomes: list[Outcome] = [
        config_refusal(
            context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name
        )
        for resource in resources
    ]
    allowed = [at for at, refusal in enumerate(outcomes) if refusal is None]
    if allowed or not resources:
        changes = [as_change(resources[at]) for at in allowed]
        done = await context.services.controller.alter_configs(changes, validate_only=validate_only)
        for at, outcome in zip(allowed, done, strict=True):
            outcomes[at] = outcome
    return outcomes


def results(response_class: Any, resources: Sequence[Any], outcomes: Sequence[Outcome]) -> Any:
    return response_class(
        responses=[
            result(response_class, resource, outcome)
            for resource, outcome in zip(resources, outcomes, strict=True)
        ]
    )


def result(response_class: Any, resource: Any, outcome: Outcome) -> Any:
    """Return the result for one resource in the response."""
    return _result_class(response_class)(
        error_code=outcome.code if outcome else 0,
        error_message=outcome.message if outcome else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _result_class(response_class: Any) -> Any:
    field = next(field for field in response_class.FIELDS if field.name == "responses")
    return field.struct_class
