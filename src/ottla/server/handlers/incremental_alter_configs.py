"""IncrementalAlterConfigs: set, delete, append to and subtract from single keys."""

from __future__ import annotations

from ottla.controller.alter_configs import ConfigChange, KeyChange, Outcome
from ottla.controller.config_rules import check_is_node, invalid_request
from ottla.controller.limits import repeated
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.server.context import RequestContext
from ottla.server.handlers._config_changes import results, through_broker
from ottla.server.handlers._loggers import alter_levels


async def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Levels of loggers change here and now; everything else goes through the metadata log."""
    twice = repeated((r.resource_type, r.resource_name) for r in request.resources)

    def change_logger(resource: AlterConfigsResource) -> Outcome:
        try:
            if (resource.resource_type, resource.resource_name) in twice:
                raise invalid_request("Each resource must appear at most once.")
            check_is_node(resource.resource_name, context.node.node_id)
            alter_levels(_keys(resource), validate_only=request.validate_only)
        except KafkaError as error:
            return error
        return None

    response: IncrementalAlterConfigsResponse = await through_broker(
        context, request, change_logger, handle_on_controller, refuse
    )
    return response


async def handle_on_controller(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    changes = [
        ConfigChange((resource.resource_type, resource.resource_name), _keys(resource))
        for resource in request.resources
    ]
    try:
        outcomes = await context.node.controller.alter_configs(
            changes, validate_only=request.validate_only
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


def _keys(resource: AlterConfigsResource) -> list[KeyChange]:
    return [KeyChange(c.name, c.config_operation, c.value) for c in resource.configs]
