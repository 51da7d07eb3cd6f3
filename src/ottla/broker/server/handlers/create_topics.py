"""CreateTopics."""

from __future__ import annotations

from typing import Final

from ottla.broker.controller.limits import repeated
from ottla.broker.controller.topics.create_topics import failed
from ottla.broker.metadata.image import METADATA_TOPIC
from ottla.broker.server.context import BrokerContext, ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.broker.server.handlers._mutations import mutation_of
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.security.rights import Operation, ResourceType

_REFUSAL: Final = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
_UNKNOWN: Final = -1
STRICT_FROM: Final = 6


async def handle(context: ControllerContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    refused = _not_creatable(context, request)
    mutation = mutation_of(context, STRICT_FROM)
    try:
        response = await context.services.controller.create_topics(
            _without(request, refused), mutation.charge
        )
    except KafkaError as error:
        return refuse(request, error)
    response.throttle_time_ms = mutation.settle()
    response.topics += [failed(name, _REFUSAL) for name in refused]
    if context.services.authorizer is not None:
        for topic in response.topics:
            _hide_configs(context, topic)
    return response


def _not_creatable(context: ControllerContext, request: CreateTopicsRequest) -> list[str]:
    """Return the topics that the client may not create, each once. Those that nobody can create in
    this way are left to the controller."""
    if context.may_on_cluster(Operation.CREATE, quiet=True):
        return []
    twice = repeated(topic.name for topic in request.topics)
    return [
        topic.name
        for topic in request.topics
        if topic.name != METADATA_TOPIC
        and topic.name not in twice
        and not context.may(Operation.CREATE, ResourceType.TOPIC, topic.name)
    ]


def _without(request: CreateTopicsRequest, refused: list[str]) -> CreateTopicsRequest:
    if not refused:
        return request
    names = frozenset(refused)
    return CreateTopicsRequest(
        topics=[topic for topic in request.topics if topic.name not in names],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )


def _hide_configs(context: ControllerContext, topic: CreatableTopicResult) -> None:
    if topic.error_code or context.may(
        Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, quiet=True
    ):
        return
    topic.configs = []
    topic.num_partitions = topic.replication_factor = _UNKNOWN
    topic.topic_config_error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


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
