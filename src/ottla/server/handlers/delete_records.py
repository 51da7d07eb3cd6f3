"""DeleteRecords: move the start of a log up to an offset; what lies before it is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.metadata.image import INTERNAL_TOPICS
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from ottla.server.context import RequestContext

TO_HIGH_WATERMARK: Final = -1


def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(context, topic.name, wanted.partition_index, wanted.offset)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete(
    context: RequestContext, topic: str, index: int, offset: int
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
    try:
        partition = context.node.replicas.partition(topic, index)
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
        log.increment_log_start_offset(offset)
        result.low_watermark = log.log_start_offset
    except KafkaError as error:
        result.error_code = int(context.node.replicas.noted(error).code)
    return result
