"""CreatePartitions."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(
    context: ControllerContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    try:
        return await context.services.controller.create_partitions(request)
    except KafkaError as error:
        return refuse(request, error)


def refuse(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=name, error_code=error.code, error_message=error.message
            )
            for name in names
        ]
    )


HANDLER = Handler(on_broker=Forward(), on_controller=handle, refuse=refuse)
