"""IncrementalAlterConfigs: set, delete, append to and subtract from single keys."""

from __future__ import annotations

from ottla.broker.controller.alter_configs import ConfigChange, KeyChange, Outcome
from ottla.broker.controller.config_rules import check_is_node, invalid_request
from ottla.broker.controller.limits import repeated
from ottla.broker.server.context import BrokerContext, ControllerContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._config_changes import on_controller, results, through_broker
from ottla.broker.server.handlers._loggers import alter_levels
from ottla.protocol.errors import KafkaError, without_traceback
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    context: BrokerContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change levels of loggers on this broker; everything else goes through the metadata log."""
    twice = repeated((r.resource_type, r.resource_name) for r in request.resources)

    def change_logger(resource: AlterConfigsResource) -> Outcome:
        try:
            if (resource.resource_type, resource.resource_name) in twice:
                raise invalid_request("Each resource must appear at most once.")
            check_is_node(resource.resource_name, context.services.node_id)
            alter_levels(_keys(resource), validate_only=request.validate_only)
        except KafkaError as error:
            return without_traceback(error)
        return None

    response: IncrementalAlterConfigsResponse = await through_broker(
        context, request, _change, change_logger, IncrementalAlterConfigsResponse, refuse
    )
    return response


async def handle_on_controller(
    context: ControllerContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    try:
        outcomes = await on_controller(
            context, request.resources, _change, validate_only=request.validate_only
        )
    except KafkaError as error:
        return refuse(request, error)
    response: IncrementalAlterConfigsResponse = results(
        IncrementalAlterConfigsResponse, request.resources, outcomes
    )
    return response


def refuse(
    request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    response: IncrementalAlterConfigsResponse = results(
        IncrementalAlterConfigsResponse, request.resources, [error] * len(request.resources)
    )
    return response


def _change(resource: AlterConfigsResource) -> ConfigChange:
    return ConfigChange((resource.resource_type, resource.resource_name), _keys(resource))


def _keys(resource: AlterConfigsResource) -> list[KeyChange]:
    return [KeyChange(c.name, c.config_operation, c.value) for c in resource.configs]


HANDLER = Handler(on_broker=handle, on_controller=handle_on_controller, refuse=refuse)
