"""AlterConfigs, the old way: the keys given are all that a resource has afterwards."""

from __future__ import annotations

from ottla.controller.alter_configs import ConfigChange, KeyChange, Operation, Outcome
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ottla.server.context import RequestContext


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
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
        outcomes = [error] * len(changes)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, error in zip(request.resources, outcomes, strict=True)
        ]
    )
