"""CreateTopics."""

from __future__ import annotations

from ottla.broker.controller.topics.create_topics import failed
from ottla.broker.server.context import BrokerContext, ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


async def handle(context: ControllerContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    try:
        return await context.services.controller.create_topics(request)
    except KafkaError as error:
        return refuse(request, error)


def refuse(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(topics=[failed(name, error) for name in names])


async def settle(
    context: BrokerContext, request: CreateTopicsRequest, response: CreateTopicsResponse
) -> None:
    """Wait until the new topics are visible here, so that the client that created them finds
    them."""
    if not request.validate_only:
        made = [topic.name for topic in response.topics if not topic.error_code]
        await context.services.requests.wait_until_visible(made)


HANDLER = Handler(on_broker=Forward(settle=settle), on_controller=handle, refuse=refuse)
