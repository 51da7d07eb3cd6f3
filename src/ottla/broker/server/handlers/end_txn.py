"""EndTxn: commit or abort a transaction. From version 5 on the answer has a new producer epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.transactions.initializing import check_id
from ottla.broker.coordinator.transactions.transaction import EPOCH_BUMP_FROM, Identity
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply
from ottla.broker.server.handlers._transactional import understood
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext

FENCED_FROM: Final = 2
PROTOCOL_2_FROM: Final = 5


def handle(context: BrokerContext, request: EndTxnRequest) -> Any:
    version = EPOCH_BUMP_FROM if context.api_version >= PROTOCOL_2_FROM else 0
    client = Identity(request.producer_id, request.producer_epoch)

    def shaped(response: EndTxnResponse) -> EndTxnResponse:
        response.error_code = understood(response.error_code, context.api_version, FENCED_FROM)
        return response

    try:
        context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        check_id(request.transactional_id)
    except KafkaError as error:
        return _refusal(error)
    reply = Reply(_refusal, shaped, holds_connection=False)
    context.services.coordinators.transactions.coordinator.request(
        request.transactional_id,
        reply,
        lambda shard, now, outbox: shard.end(
            request.transactional_id, client, request.committed, version, reply, now, outbox
        ),
    )
    return reply.result


def _refusal(error: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code)


HANDLER = Handler(on_broker=handle)
