"""AddPartitionsToTxn: add partitions to a transaction.

Up to version 3, a client of protocol 1 adds partitions before it writes to them. From version 4 on,
brokers send it on behalf of batches they received, for several transactions at once: to verify that
a partition was added, or to add it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.transactions.initializing import check_id
from ottla.broker.coordinator.transactions.shard import added_response
from ottla.broker.coordinator.transactions.transaction import (
    EPOCH_BUMP_FROM,
    Identity,
    TopicPartition,
)
from ottla.broker.metadata.image import INTERNAL_TOPICS
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Gathering
from ottla.broker.server.handlers._transactional import understood
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext

BROKERS_FROM: Final = 4
FENCED_FROM: Final = 2


def handle(context: BrokerContext, request: AddPartitionsToTxnRequest) -> Any:
    if context.api_version >= BROKERS_FROM:
        context.require_on_cluster(Operation.CLUSTER_ACTION)
        transactions, combine = request.transactions, _combined
    else:
        transactions = [_of_client(request)]

        def combine(parts: list[AddPartitionsToTxnResponse]) -> AddPartitionsToTxnResponse:
            return _for_client(parts[0], context.api_version)

    gathering = Gathering(combine)
    for transaction in transactions:
        _ask(context, transaction, gathering)
    gathering.close()
    return gathering.result


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _ask(
    context: BrokerContext, transaction: AddPartitionsToTxnTransaction, gathering: Gathering
) -> None:
    name = transaction.transactional_id
    client = Identity(transaction.producer_id, transaction.producer_epoch)
    wanted = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    of_client = context.api_version < BROKERS_FROM

    def refuse(error: KafkaError) -> AddPartitionsToTxnResponse:
        return added_response(name, dict.fromkeys(wanted, error.code))

    part = gathering.part(refuse)
    if of_client and not context.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        part.fail(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    refused = _refused(context, wanted, of_client=of_client)
    if refused:
        part.resolve(added_response(name, refused))
        return
    try:
        check_id(name)
    except KafkaError as error:
        part.fail(error)
        return
    coordinator = context.services.coordinators.transactions.coordinator
    if transaction.verify_only:
        coordinator.request(
            name,
            part,
            lambda shard, now, outbox: shard.verify_partitions(name, client, wanted, part, outbox),
        )
        return
    version = 0 if of_client else EPOCH_BUMP_FROM
    coordinator.request(
        name,
        part,
        lambda shard, now, outbox: shard.add_partitions(
            name, client, wanted, version, part, now, outbox
        ),
    )


def _refused(
    context: BrokerContext, wanted: list[TopicPartition], *, of_client: bool
) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of all partitions if one of them cannot be added: then none is."""
    image = context.services.metadata.image
    errors: dict[TopicPartition, ErrorCode] = {}
    writable = _writable(context, wanted) if of_client else None
    for topic, index in wanted:
        known = image.topics.get(topic)
        if writable is not None and topic not in writable:
            errors[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif known is None or index not in known.partitions:
            errors[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not errors:
        return {}
    return {where: errors.get(where, ErrorCode.OPERATION_NOT_ATTEMPTED) for where in wanted}


def _writable(context: BrokerContext, wanted: list[TopicPartition]) -> set[str]:
    """Return the topics that the client may write to; internal ones are not among them."""
    return {
        topic
        for topic in dict.fromkeys(topic for topic, _ in wanted)
        if topic not in INTERNAL_TOPICS and context.may(Operation.WRITE, ResourceType.TOPIC, topic)
    }


def _combined(parts: list[AddPartitionsToTxnResponse]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[result for part in parts for result in part.results_by_transaction]
    )


def _for_client(response: AddPartitionsToTxnResponse, version: int) -> AddPartitionsToTxnResponse:
    topics = response.results_by_transaction[0].topic_results
    for topic in topics:
        for partition in topic.results_by_partition:
            partition.partition_error_code = understood(
                partition.partition_error_code, version, FENCED_FROM
            )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


HANDLER = Handler(
    on_broker=handle, is_exempt=lambda context, request: context.api_version >= BROKERS_FROM
)
