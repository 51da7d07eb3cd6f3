"""AlterConfigs, the old way: the keys given are all that a resource has afterwards."""

from __future__ import annotations

from ottla.controller.alter_configs import ConfigChange, KeyChange, Operation, Outcome
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.server.context import RequestContext
from ottla.server.handlers._config_changes import results, through_broker


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    response: AlterConfigsResponse = await through_broker(
        context, request, None, handle_on_controller, refuse
    )
    return response


async def handle_on_controller(
    context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    changes = [
        ConfigChange(
            (resource.resource_type, resource.resource_name),
            [KeyChange(c.name, Operation.SET, c.value) for c in resource.configs],
            replace=True,
        )
        for resource in request.resources
    ]
    outcomes: list[Outcome]
    try:
        outcomes = await context.node.controller.alter_configs(
            changes, validate_only=request.validate_only
        )
    except KafkaError as error:
        return refuse(request, error)
    response: AlterConfigsResponse = results(AlterConfigsResponse, request.resources, outcomes)
    return response


def refuse(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    outcomes = [error] * len(request.resources)
    response: AlterConfigsResponse = results(AlterConfigsResponse, request.resources, outcomes)
    return response
