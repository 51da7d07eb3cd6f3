"""DescribeProducers: who writes to a partition, and which transactions are open there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.names import check_name
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from ottla.server.context import RequestContext
    from ottla.storage.producer_state import ProducerEntry


def handle(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(context, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(context: RequestContext, topic: str, index: int) -> PartitionResponse:
    node = context.node
    try:
        check_name(topic)
        partition = node.replicas.partition(topic, index)
        if partition.leader_id != node.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} is led elsewhere")
        producers = partition.usable_log().producers.producers
    except KafkaError as error:
        code = node.replicas.noted(error).code
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
