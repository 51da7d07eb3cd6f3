"""DeleteTopics."""

from __future__ import annotations

from ottla.controller.delete_topics import refuse_all as refuse
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.server.context import RequestContext


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if not context.node.config["delete.topic.enable"]:
        return refuse(request, _disabled(context.api_version))
    try:
        return await context.node.controller.delete_topics(request)
    except KafkaError as error:
        return refuse(request, error)


def _disabled(api_version: int) -> KafkaError:
    """Clients before version 3 do not know the code made for this."""
    known = api_version >= 3
    code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
    return KafkaError(code, "Topic deletion is disabled by delete.topic.enable=false.")
