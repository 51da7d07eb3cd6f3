"""AlterConfigs, the old API: the given keys replace all configs of a resource."""

from __future__ import annotations

from ottla.broker.controller.alter_configs import ConfigChange, KeyChange, Operation
from ottla.broker.server.context import BrokerContext, ControllerContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._config_changes import on_controller, results, through_broker
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)


async def handle(context: BrokerContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    response: AlterConfigsResponse = await through_broker(
        context, request, _change, None, AlterConfigsResponse, refuse
    )
    return response


async def handle_on_controller(
    context: ControllerContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    try:
        outcomes = await on_controller(
            context, request.resources, _change, validate_only=request.validate_only
        )
    except KafkaError as error:
        return refuse(request, error)
    response: AlterConfigsResponse = results(AlterConfigsResponse, request.resources, outcomes)
    return response


def refuse(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    outcomes = [error] * len(request.resources)
    response: AlterConfigsResponse = results(AlterConfigsResponse, request.resources, outcomes)
    return response


def _change(resource: AlterConfigsResource) -> ConfigChange:
    return ConfigChange(
        (resource.resource_type, resource.resource_name),
        [KeyChange(c.name, Operation.SET, c.value) for c in resource.configs],
        replace=True,
    )


HANDLER = Handler(on_broker=handle, on_controller=handle_on_controller, refuse=refuse)
