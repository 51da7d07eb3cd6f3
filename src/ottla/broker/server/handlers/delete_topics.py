"""DeleteTopics."""

from __future__ import annotations

from typing import Final

from ottla.broker.controller.limits import repeated
from ottla.broker.controller.topics.delete_topics import WantedTopic, failed, wanted_topics
from ottla.broker.controller.topics.delete_topics import refuse_all as refuse
from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.broker.server.handlers._mutations import mutation_of
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.uuids import ZERO_UUID
from ottla.security.rights import Operation, ResourceType

STRICT_FROM: Final = 5


async def handle(context: ControllerContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if not context.services.config["delete.topic.enable"]:
        return refuse(request, _disabled(context.api_version))
    refused: list[DeletableTopicResult] = []
    if context.services.authorizer is not None:
        request, refused = _sort_out(context, request)
    mutation = mutation_of(context, STRICT_FROM)
    try:
        response = await context.services.controller.delete_topics(request, mutation.charge)
    except KafkaError as error:
        response = refuse(request, error)
    response.throttle_time_ms = mutation.settle()
    response.responses += refused
    if refused:
        # The place of an answer must not tell topics that do not exist from hidden ones.
        response.responses.sort(key=lambda result: (result.name or "", result.topic_id))
    return response


def _sort_out(
    context: ControllerContext, request: DeleteTopicsRequest
) -> tuple[DeleteTopicsRequest, list[DeletableTopicResult]]:
    """Return the request without the topics that the client may not delete, and their errors."""
    if context.may_on_cluster(Operation.DELETE, quiet=True):
        return request, []
    wanted = list(wanted_topics(request))
    twice = repeated(wanted)
    kept, refused = [], []
    for item in dict.fromkeys(wanted):
        is_valid = (item.name is None) != (item.id == ZERO_UUID) and item not in twice
        refusal = _refusal(context, item) if is_valid else None
        if refusal is None:
            kept += [DeleteTopicState(name=item.name, topic_id=item.id)] * wanted.count(item)
        else:
            refused.append(refusal)
    return DeleteTopicsRequest(topics=kept, timeout_ms=request.timeout_ms), refused


def _refusal(context: ControllerContext, item: WantedTopic) -> DeletableTopicResult | None:
    """Return the answer for a topic that the client may not delete; else None. It tells the name
    that belongs to an id only to those who may describe the topic. A topic that does not exist yet
    is not passed on: it may exist when the controller looks."""
    image = context.services.metadata.image
    if item.name is None:
        topic = image.topics_by_id.get(item.id)
        if topic is None:
            return failed(item, KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
        if context.may(Operation.DELETE, ResourceType.TOPIC, topic.name):
            return None
        visible = context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quiet=True)
        shown = item._replace(name=topic.name) if visible else item
        return failed(shown, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    if context.may(Operation.DELETE, ResourceType.TOPIC, item.name):
        return None
    visible = context.may(Operation.DESCRIBE, ResourceType.TOPIC, item.name, quiet=True)
    if visible and item.name not in image.topics:
        return failed(item, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return failed(item, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def _disabled(api_version: int) -> KafkaError:
    """Return the error; clients before version 3 do not know TOPIC_DELETION_DISABLED."""
    known = api_version >= 3
    code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
    return KafkaError(code, "Topic deletion is disabled by delete.topic.enable=false.")


HANDLER = Handler(on_broker=Forward(), on_controller=handle)
