"""DeleteRecords: move the start of a log up to an offset; what lies before it is gone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.metadata.image import INTERNAL_TOPICS
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.server.purgatory import DelayedDeletion

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.server.context import RequestContext

TO_HIGH_WATERMARK: Final = -1


Waiting = dict["Partition", DeleteRecordsPartitionResult]


def handle(
    context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | DelayedDeletion:
    """Answered when all live replicas have done it."""
    waiting: Waiting = {}
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(context, topic.name, wanted.partition_index, wanted.offset, waiting)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    if not waiting:
        return response
    needed = {partition: partition.log_start_offset for partition in waiting}
    finish = partial(_finish, response, waiting)
    return DelayedDeletion(context.node.runtime, needed, request.timeout_ms, finish)


def _finish(
    response: DeleteRecordsResponse, waiting: Waiting, missed: dict[Partition, ErrorCode]
) -> DeleteRecordsResponse:
    for partition, result in waiting.items():
        if partition in missed:
            result.error_code = int(missed[partition])
        else:
            result.low_watermark = partition.low_watermark
    return response


def _delete(
    context: RequestContext, topic: str, index: int, offset: int, waiting: Waiting
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
    try:
        partition = context.node.replicas.led_partition(topic, index)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal")
        log = partition.usable_log()
        if not log.config.delete:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"{partition} is compacted; its records are not deleted"
            )
        if offset == TO_HIGH_WATERMARK:
            offset = partition.high_watermark
        if not 0 <= offset <= partition.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{offset} is beyond the high watermark {partition.high_watermark} of {partition}",
            )
        partition.delete_before(offset)
        result.low_watermark = partition.low_watermark
        if result.low_watermark < log.log_start_offset:
            waiting[partition] = result
    except KafkaError as error:
        result.error_code = int(context.node.replicas.noted(error).code)
    return result
