"""InitProducerId: an identity for an idempotent producer.

Without a transactional id each call gets a fresh id, also where the producer names the one it had:
that is how a client whose sequence numbers are lost starts over.
"""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.server.context import RequestContext

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    try:
        _check(request)
        producer_id = await context.node.controller.next_producer_id()
    except KafkaError as error:
        return InitProducerIdResponse(
            error_code=error.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
        )
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _check(request: InitProducerIdRequest) -> None:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "a producer id and its epoch must be given together"
        )
    if request.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if request.transactional_id is not None:
        # This node has no transaction coordinator, so no id may be bound to a transactional id.
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
