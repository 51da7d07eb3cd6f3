"""WriteTxnMarkers: a transaction coordinator ends transactions in partitions led here.

Tools send it too, to end a transaction that no coordinator knows of any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.transactions.transaction import TopicPartition, by_topic
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Gathering
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.security.rights import Operation

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext


def handle(context: BrokerContext, request: WriteTxnMarkersRequest) -> Any:
    markers = context.services.coordinators.transactions.local_markers
    asked = [
        (marker, (topic.name, index))
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]

    def combine(errors: list[ErrorCode]) -> WriteTxnMarkersResponse:
        results: dict[int, dict[TopicPartition, ErrorCode]] = {}
        for (marker, where), error in zip(asked, errors, strict=True):
            results.setdefault(marker.producer_id, {})[where] = error
        return WriteTxnMarkersResponse(
            markers=[_result(producer_id, found) for producer_id, found in results.items()]
        )

    is_allowed = context.may_on_cluster(Operation.ALTER, quiet=True) or context.may_on_cluster(
        Operation.CLUSTER_ACTION
    )
    if not is_allowed:
        return combine([ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * len(asked))
    gathering = Gathering(combine)
    for marker, where in asked:
        markers.write(marker, where, gathering.part(lambda error: error.code).resolve)
    gathering.close()
    return gathering.result


def _result(producer_id: int, errors: dict[TopicPartition, ErrorCode]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=int(errors[topic, index])
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(errors).items()
        ],
    )


HANDLER = Handler(on_broker=handle, is_exempt=lambda context, request: True)
