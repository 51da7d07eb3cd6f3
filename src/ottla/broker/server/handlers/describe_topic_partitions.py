"""DescribeTopicPartitions: topics page by page, so that no response is huge."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable
from typing import Any

from ottla.broker.controller.names import name_problem
from ottla.broker.metadata.image import INTERNAL_TOPICS, BrokerImage, MetadataImage, PartitionImage
from ottla.broker.server.context import BrokerContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._authorized_operations import NOT_ASKED, authorized_operations
from ottla.broker.server.handlers._replicas import (
    offline_replicas,
    reachable_brokers,
    reachable_leader,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.runtime.pace import at_once, in_slices
from ottla.security.rights import Operation, ResourceType

AT_ONCE_TOPICS_MAX = 1_000


def handle(
    context: BrokerContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | Coroutine[Any, Any, DescribeTopicPartitionsResponse]:
    steps = _describe_or_refuse(context, request)
    if len(request.topics) <= AT_ONCE_TOPICS_MAX:
        return at_once(steps)
    return in_slices(context.services.runtime, steps)


def _describe_or_refuse(
    context: BrokerContext, request: DescribeTopicPartitionsRequest
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    try:
        return (yield from _describe(context, request))
    except KafkaError as error:
        # The response has no field for an error of the whole request: each topic carries it.
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(error_code=error.code, name=topic.name)
                for topic in request.topics
            ]
        )


def _describe(
    context: BrokerContext, request: DescribeTopicPartitionsRequest
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    image = context.services.metadata.image
    reachable = reachable_brokers(image, context.caller.listener_name)
    limit = context.services.config["max.request.partition.size.limit"]
    remaining = max(1, min(limit, request.response_partition_limit))
    cursor = request.cursor
    response = DescribeTopicPartitionsResponse()
    by_name = bool(request.topics)
    refused = []
    for name in _names(image, request):
        yield
        if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=not by_name):
            if by_name:
                refused.append(_refusal(name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(context, name))
            continue
        count = len(topic.partitions)
        last = min(count, first + remaining)
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.id,
                is_internal=topic.is_internal,
                partitions=[
                    _partition(topic.partitions[index], reachable) for index in range(first, last)
                ],
                topic_authorized_operations=authorized_operations(
                    context, ResourceType.TOPIC, name
                ),
            )
        )
        if last < count:
            response.next_cursor = Cursor(topic_name=name, partition_index=last)
            break
        remaining -= max(0, last - first)
    response.topics += refused
    return response


def _names(image: MetadataImage, request: DescribeTopicPartitionsRequest) -> Iterable[str]:
    """Return the requested topics from the cursor on, sorted; without a list, all topics."""
    cursor = request.cursor
    start = "" if cursor is None else cursor.topic_name
    asked = {topic.name for topic in request.topics} or image.topics.keys()
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}",
        )
    if cursor is not None and request.topics and start not in asked:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {start}",
        )
    return sorted(name for name in asked if name >= start)


def _refusal(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        topic_authorized_operations=NOT_ASKED,
    )


def _unknown(context: BrokerContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    problem = name_problem(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=(
            ErrorCode.INVALID_TOPIC_EXCEPTION if problem else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, name),
    )


def _partition(
    partition: PartitionImage, reachable: dict[int, BrokerImage]
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.index,
        leader_id=reachable_leader(partition, reachable),
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(partition, reachable),
    )


HANDLER = Handler(on_broker=handle)
