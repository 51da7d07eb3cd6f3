"""DeleteTopics."""

from __future__ import annotations

from ottla.broker.controller.topics.delete_topics import refuse_all as refuse
from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


async def handle(context: ControllerContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if not context.services.config["delete.topic.enable"]:
        return refuse(request, _disabled(context.api_version))
    try:
        return await context.services.controller.delete_topics(request)
    except KafkaError as error:
        return refuse(request, error)


def _disabled(api_version: int) -> KafkaError:
    """Return the error; clients before version 3 do not know TOPIC_DELETION_DISABLED."""
    known = api_version >= 3
    code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
    return KafkaError(code, "Topic deletion is disabled by delete.topic.enable=false.")


HANDLER = Handler(on_broker=Forward(), on_controller=handle)
