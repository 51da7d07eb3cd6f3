"""CreatePartitions."""

from __future__ import annotations

from typing import Final

from ottla.broker.controller.limits import repeated
from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.broker.server.handlers._mutations import mutation_of
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.security.rights import Operation, ResourceType

STRICT_FROM: Final = 3


async def handle(
    context: ControllerContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    twice = repeated(topic.name for topic in request.topics)
    refused = [
        topic
        for topic in request.topics
        if topic.name not in twice
        and not context.may(Operation.ALTER, ResourceType.TOPIC, topic.name)
    ]
    if refused:
        names = {topic.name for topic in refused}
        request = _with(request, [topic for topic in request.topics if topic.name not in names])
    mutation = mutation_of(context, STRICT_FROM)
    try:
        response = await context.services.controller.create_partitions(request, mutation.charge)
    except KafkaError as error:
        response = refuse(request, error)
    response.throttle_time_ms = mutation.settle()
    if refused:
        refusal = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        response.results += refuse(_with(request, refused), refusal).results
    return response


def _with(
    request: CreatePartitionsRequest, topics: list[CreatePartitionsTopic]
) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=topics, timeout_ms=request.timeout_ms, validate_only=request.validate_only
    )


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
