"""InitProducerId: assign an identity to an idempotent or transactional producer.

Without a transactional id each call gets a new producer id, even if the producer names the one it
had: that is how a client that has lost its sequence numbers starts over. With a transactional id,
its coordinator decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.transactions.initializing import check_request, expected_identity
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply
from ottla.broker.server.handlers._transactional import understood
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
FENCED_FROM: Final = 4


async def handle(context: BrokerContext, request: InitProducerIdRequest) -> Any:
    coordinators = context.services.coordinators
    try:
        _require_rights(context, request)
        if request.transactional_id is None:
            expected_identity(request)
            producer_id = await coordinators.producer_ids.next()
            return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        check_request(request, coordinators.transactions.settings)
        # The coordinator cannot wait for a producer id in the middle of a decision.
        await coordinators.producer_ids.wait_available()
    except KafkaError as error:
        return _refusal(error)
    return _ask_coordinator(context, request, request.transactional_id)


def _require_rights(context: BrokerContext, request: InitProducerIdRequest) -> None:
    transactional_id = request.transactional_id
    if transactional_id is not None:
        context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        if request.enable2_pc:
            context.require(
                Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, transactional_id
            )
        return
    authorizer = context.services.authorizer
    if (
        authorizer is not None
        and not context.may_on_cluster(Operation.IDEMPOTENT_WRITE, quiet=True)
        and not authorizer.allows_on_any(context, Operation.WRITE, ResourceType.TOPIC)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _ask_coordinator(
    context: BrokerContext, request: InitProducerIdRequest, transactional_id: str
) -> Any:
    def shaped(response: InitProducerIdResponse) -> InitProducerIdResponse:
        response.error_code = understood(response.error_code, context.api_version, FENCED_FROM)
        return response

    reply = Reply(_refusal, shaped, holds_connection=False)
    context.services.coordinators.transactions.coordinator.request(
        transactional_id,
        reply,
        lambda shard, now, outbox: shard.init_producer_id(request, reply, now, outbox),
    )
    return reply.result


def _refusal(error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


HANDLER = Handler(on_broker=handle)
