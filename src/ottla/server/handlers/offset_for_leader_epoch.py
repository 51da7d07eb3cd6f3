"""OffsetForLeaderEpoch: where a leader epoch ended, by which a reader notices lost records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from ottla.server.context import RequestContext


def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_look_up(context, topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _look_up(
    context: RequestContext, topic: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        partition = context.node.replicas.partition(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        partition.check_leading()
        # Where the log ends, not where consumers may read to: after an election the high watermark
        # may be behind what a reader has seen, and it must not take that for a loss.
        answer.leader_epoch, answer.end_offset = partition.usable_log().epoch_end_offset(
            wanted.leader_epoch
        )
    except KafkaError as error:
        answer.error_code = int(context.node.replicas.noted(error).code)
    return answer
