"""AddOffsetsToTxn: the offsets of a group take part in a transaction (protocol 1).

What is added is the partition of `__consumer_offsets` in which the group lives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.coordinator.hashing import partition_of
from ottla.coordinator.service import GROUPS_TOPIC
from ottla.coordinator.transactions.service import verdicts
from ottla.coordinator.transactions.shard import added_response
from ottla.coordinator.transactions.transaction import Identity
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from ottla.server.handlers._transactional import ShapedReply, understood

if TYPE_CHECKING:
    from ottla.server.context import RequestContext

FENCED_FROM: Final = 2


async def handle(context: RequestContext, request: AddOffsetsToTxnRequest) -> Any:
    coordinators = context.node.coordinators
    try:
        await coordinators.ensure_topic(GROUPS_TOPIC)
    except KafkaError as error:
        return _refusal(error)
    groups = context.node.metadata.image.topics[GROUPS_TOPIC]
    where = (GROUPS_TOPIC, partition_of(request.group_id, len(groups.partitions)))
    client = Identity(request.producer_id, request.producer_epoch)

    def shaped(response: AddPartitionsToTxnResponse) -> AddOffsetsToTxnResponse:
        error = verdicts(response)[where]
        return AddOffsetsToTxnResponse(
            error_code=understood(error, context.api_version, FENCED_FROM)
        )

    reply = ShapedReply(
        lambda error: added_response(request.transactional_id, {where: error.code}), shaped
    )
    coordinators.transactions.coordinator.request(
        request.transactional_id,
        reply,
        lambda shard, now, outbox: shard.add_partitions(
            request.transactional_id, client, [where], 0, reply, now, outbox
        ),
    )
    return reply.result


def _refusal(error: KafkaError) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error.code)
