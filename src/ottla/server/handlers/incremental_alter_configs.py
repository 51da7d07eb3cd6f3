"""IncrementalAlterConfigs: set, delete, append to and subtract from single keys."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.controller.alter_configs import ConfigChange, KeyChange, Outcome
from ottla.controller.config_rules import check_is_node, invalid_request
from ottla.controller.limits import repeated
from ottla.metadata.resources import ResourceType
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.server.context import RequestContext
from ottla.server.handlers._loggers import alter_levels


async def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    changes = [
        ConfigChange(
            (resource.resource_type, resource.resource_name),
            [KeyChange(c.name, c.config_operation, c.value) for c in resource.configs],
        )
        for resource in request.resources
    ]
    outcomes = await _alter(context, changes, request.validate_only)
    return IncrementalAlterConfigsResponse(
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


async def _alter(
    context: RequestContext, changes: Sequence[ConfigChange], validate_only: bool
) -> list[Outcome]:
    """Levels of loggers change here and now; everything else goes through the metadata log."""
    stored = [c for c in changes if c.resource[0] != ResourceType.BROKER_LOGGER]
    try:
        outcomes = await context.node.controller.alter_configs(stored, validate_only=validate_only)
    except KafkaError as error:
        outcomes = [error] * len(stored)
    rest = iter(outcomes)
    twice = repeated(change.resource for change in changes)
    return [
        _alter_loggers(context, change, validate_only, change.resource in twice)
        if change.resource[0] == ResourceType.BROKER_LOGGER
        else next(rest)
        for change in changes
    ]


def _alter_loggers(
    context: RequestContext, change: ConfigChange, validate_only: bool, is_repeated: bool
) -> Outcome:
    try:
        if is_repeated:
            raise invalid_request("Each resource must appear at most once.")
        check_is_node(change.resource[1], context.node.node_id)
        alter_levels(change.keys, validate_only=validate_only)
    except KafkaError as error:
        return error
    return None
