"""DeleteRecords: move the start of a log up to an offset; records before it are deleted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.image import INTERNAL_TOPICS
from ottla.broker.replication.record_deletion import delete_before, low_watermark
from ottla.broker.server.contract import Handler
from ottla.broker.server.purgatory import DelayedWrite, deleted
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.broker.server.context import BrokerContext

TO_HIGH_WATERMARK: Final = -1


Waiting = dict["Partition", DeleteRecordsPartitionResult]


def handle(
    context: BrokerContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | DelayedWrite:
    """Answer when all live replicas have deleted the records."""
    waiting: Waiting = {}
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=_delete_in_topic(context, topic, waiting),
            )
            for topic in request.topics
        ]
    )
    if not waiting:
        return response
    needed = {partition: partition.log_start_offset for partition in waiting}
    finish = partial(_finish, response, waiting)
    return DelayedWrite(
        context.services.runtime, needed, deleted, request.timeout_ms, finish, holds_connection=True
    )


def _delete_in_topic(
    context: BrokerContext, topic: DeleteRecordsTopic, waiting: Waiting
) -> list[DeleteRecordsPartitionResult]:
    if not context.may(Operation.DELETE, ResourceType.TOPIC, topic.name):
        return [
            DeleteRecordsPartitionResult(
                partition_index=wanted.partition_index,
                low_watermark=-1,
                error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            )
            for wanted in topic.partitions
        ]
    return [
        _delete(context, topic.name, wanted.partition_index, wanted.offset, waiting)
        for wanted in topic.partitions
    ]


def _finish(
    response: DeleteRecordsResponse, waiting: Waiting, missed: dict[Partition, ErrorCode]
) -> DeleteRecordsResponse:
    for partition, result in waiting.items():
        if partition in missed:
            result.error_code = int(missed[partition])
        else:
            result.low_watermark = low_watermark(partition)
    return response


def _delete(
    context: BrokerContext, topic: str, index: int, offset: int, waiting: Waiting
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
    try:
        partition = context.services.replicas.led_partition(topic, index)
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
        delete_before(partition, offset)
        result.low_watermark = low_watermark(partition)
        if result.low_watermark < log.log_start_offset:
            waiting[partition] = result
    except KafkaError as error:
        result.error_code = int(context.services.replicas.fail_dir_if_needed(error).code)
    return result


HANDLER = Handler(on_broker=handle)
