"""OffsetForLeaderEpoch: where a leader epoch ends, by which a reader detects lost records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.contract import Handler
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext


def handle(
    context: BrokerContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    is_node = context.may_on_cluster(Operation.CLUSTER_ACTION, quiet=True)
    results = []
    for topic in request.topics:
        if is_node or context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic):
            found = [_look_up(context, topic.topic, wanted) for wanted in topic.partitions]
        else:
            found = [_refusal(wanted) for wanted in topic.partitions]
        results.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=found))
    return OffsetForLeaderEpochResponse(topics=results)


def _refusal(wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    return EpochEndOffset(
        partition=wanted.partition, error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    )


def _look_up(
    context: BrokerContext, topic: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        partition = context.services.replicas.partition(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        partition.check_leading()
        # Use the log end, not the high watermark: after an election the high watermark may be
        # behind what a reader has seen, and the reader must not take that for a loss.
        answer.leader_epoch, answer.end_offset = partition.usable_log().epoch_end_offset(
            wanted.leader_epoch
        )
    except KafkaError as error:
        answer.error_code = int(context.services.replicas.fail_dir_if_needed(error).code)
    return answer


HANDLER = Handler(on_broker=handle)
