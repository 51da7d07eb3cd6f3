"""InitProducerId: an identity for an idempotent or transactional producer.

Without a transactional id each call gets a fresh id, also where the producer names the one it had:
that is how a client whose sequence numbers are lost starts over. With one, its coordinator decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.coordinator.transactions.initializing import expected_identity
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.server.handlers._transactional import ShapedReply, understood

if TYPE_CHECKING:
    from ottla.server.context import RequestContext

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
FENCED_FROM: Final = 4


async def handle(context: RequestContext, request: InitProducerIdRequest) -> Any:
    try:
        expected_identity(request)
        if request.transactional_id is None:
            producer_id = await context.node.coordinators.producer_ids.next()
            return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        if not request.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        # The coordinator cannot wait for a producer id in the middle of a decision.
        await context.node.coordinators.producer_ids.some()
    except KafkaError as error:
        return _refusal(error)
    return _ask_coordinator(context, request, request.transactional_id)


def _ask_coordinator(
    context: RequestContext, request: InitProducerIdRequest, transactional_id: str
) -> Any:
    def shaped(response: InitProducerIdResponse) -> InitProducerIdResponse:
        response.error_code = understood(response.error_code, context.api_version, FENCED_FROM)
        return response

    reply = ShapedReply(_refusal, shaped)
    context.node.coordinators.transactions.coordinator.request(
        transactional_id,
        reply,
        lambda shard, now, outbox: shard.init_producer_id(request, reply, now, outbox),
    )
    return reply.result


def _refusal(error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
