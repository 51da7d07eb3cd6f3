"""EndTxn: commit or abort. From version 5 on the client gets a new epoch with the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.coordinator.transactions.transaction import EPOCH_BUMP_FROM, Identity
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.server.handlers._transactional import ShapedReply, understood

if TYPE_CHECKING:
    from ottla.server.context import RequestContext

FENCED_FROM: Final = 2
PROTOCOL_2_FROM: Final = 5


def handle(context: RequestContext, request: EndTxnRequest) -> Any:
    version = EPOCH_BUMP_FROM if context.api_version >= PROTOCOL_2_FROM else 0
    client = Identity(request.producer_id, request.producer_epoch)

    def shaped(response: EndTxnResponse) -> EndTxnResponse:
        response.error_code = understood(response.error_code, context.api_version, FENCED_FROM)
        return response

    reply = ShapedReply(_refusal, shaped)
    context.node.coordinators.transactions.coordinator.request(
        request.transactional_id,
        reply,
        lambda shard, now, outbox: shard.end(
            request.transactional_id, client, request.committed, version, reply, now, outbox
        ),
    )
    return reply.result


def _refusal(error: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code)
