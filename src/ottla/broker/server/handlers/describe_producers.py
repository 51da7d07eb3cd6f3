"""DescribeProducers: the producers of a partition, and the transactions open there.

As in Kafka, every replica answers from its own log: `kafka-transactions.sh find-hanging
--broker-id` asks a broker about all its partitions, led or followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.controller.names import check_name
from ottla.broker.server.contract import Handler
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext
    from ottla.broker.storage.producers.state import ProducerEntry


def handle(context: BrokerContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=topic.name, partitions=_describe_in_topic(context, topic))
            for topic in request.topics
        ]
    )


def _describe_in_topic(context: BrokerContext, topic: TopicRequest) -> list[PartitionResponse]:
    may_read = context.may(Operation.READ, ResourceType.TOPIC, topic.name)
    return [
        _describe(context, topic.name, index, may_read=may_read)
        for index in topic.partition_indexes
    ]


def _describe(
    context: BrokerContext, topic: str, index: int, *, may_read: bool
) -> PartitionResponse:
    replicas = context.services.replicas
    try:
        if not may_read:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        check_name(topic)
        partition = replicas.partition(topic, index)
        producers = partition.usable_log().producers.producers
    except KafkaError as error:
        code = replicas.fail_dir_if_needed(error).code
        return PartitionResponse(
            partition_index=index, error_code=int(code), error_message=error.message
        )
    return PartitionResponse(
        partition_index=index, active_producers=[_state(entry) for entry in producers.values()]
    )


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else -1,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )


HANDLER = Handler(on_broker=handle)
