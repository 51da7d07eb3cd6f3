"""CreateTopics."""

from __future__ import annotations

from ottla.controller.create_topics import failed
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.server.context import RequestContext


async def handle(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    try:
        return await context.node.controller.create_topics(request)
    except KafkaError as error:
        return refuse(request, error)


def refuse(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(topics=[failed(name, error) for name in names])


async def settle(
    context: RequestContext, request: CreateTopicsRequest, response: CreateTopicsResponse
) -> None:
    """A client that asks for a topic it has just made should find it."""
    if not request.validate_only:
        made = [topic.name for topic in response.topics if not topic.error_code]
        await context.node.requests.known(made)
