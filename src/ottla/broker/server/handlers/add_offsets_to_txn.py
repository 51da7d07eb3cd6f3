"""AddOffsetsToTxn: add the offsets of a group to a transaction (protocol 1).

It adds the partition of `__consumer_offsets` that holds the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.hashing import partition_of
from ottla.broker.coordinator.transactions.initializing import check_id
from ottla.broker.coordinator.transactions.service import verdicts
from ottla.broker.coordinator.transactions.shard import added_response
from ottla.broker.coordinator.transactions.transaction import Identity
from ottla.broker.metadata.image import GROUPS_TOPIC
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply
from ottla.broker.server.handlers._transactional import understood
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext

FENCED_FROM: Final = 2


async def handle(context: BrokerContext, request: AddOffsetsToTxnRequest) -> Any:
    coordinators = context.services.coordinators
    try:
        context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        context.require(Operation.READ, ResourceType.GROUP, request.group_id)
        check_id(request.transactional_id)
        await coordinators.ensure_topic(GROUPS_TOPIC)
    except KafkaError as error:
        return _refusal(error)
    groups = context.services.metadata.image.topics[GROUPS_TOPIC]
    where = (GROUPS_TOPIC, partition_of(request.group_id, len(groups.partitions)))
    client = Identity(request.producer_id, request.producer_epoch)

    def shaped(response: AddPartitionsToTxnResponse) -> AddOffsetsToTxnResponse:
        error = verdicts(response)[where]
        return AddOffsetsToTxnResponse(
            error_code=understood(error, context.api_version, FENCED_FROM)
        )

    reply = Reply(
        lambda error: added_response(request.transactional_id, {where: error.code}),
        shaped,
        holds_connection=False,
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


HANDLER = Handler(on_broker=handle)
