"""Markers for partitions that other brokers lead: WriteTxnMarkers, with many transactions per
request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ottla.broker.coordinator.broker_batcher import BrokerBatcher
from ottla.broker.coordinator.transactions.transaction import TopicPartition, by_topic
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Outcome: TypeAlias = Callable[[Mapping[TopicPartition, ErrorCode]], object]


class RemoteMarkers(BrokerBatcher["_Letter"]):
    LANE = "markers"

    def write(
        self,
        broker_id: int,
        marker: WritableTxnMarker,
        partitions: Sequence[TopicPartition],
        *,
        is_wanted: Callable[[], bool],
        done: Outcome,
    ) -> None:
        """Write a marker. `done` is called with NONE or the error of each partition. A marker that
        is no longer wanted when its turn comes is left out, without a call."""
        self.put(broker_id, _Letter(marker, partitions, is_wanted, done))

    def pack(self, items: Sequence[_Letter]) -> WriteTxnMarkersRequest:
        return WriteTxnMarkersRequest(markers=[letter.marker for letter in items])

    def unpack(self, items: Sequence[_Letter], response: WriteTxnMarkersResponse) -> None:
        by_producer = {
            result.producer_id: {
                (topic.name, partition.partition_index): ErrorCode.of(partition.error_code)
                for topic in result.topics
                for partition in topic.partitions
            }
            for result in response.markers
        }
        for letter in items:
            letter.answered(by_producer.get(letter.key, {}))


class _Letter:
    """The marker of one transaction for some partitions of one broker."""

    __slots__ = ("_done", "_is_wanted", "_partitions", "marker")

    def __init__(
        self,
        marker: WritableTxnMarker,
        partitions: Sequence[TopicPartition],
        is_wanted: Callable[[], bool],
        done: Outcome,
    ) -> None:
        self.marker = WritableTxnMarker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_result=marker.transaction_result,
            topics=[
                WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        self._partitions = partitions
        self._is_wanted = is_wanted
        self._done = done

    @property
    def key(self) -> int:
        """The producer id, by which the response is keyed."""
        return self.marker.producer_id

    @property
    def is_wanted(self) -> bool:
        return self._is_wanted()

    def fail(self, error: ErrorCode) -> None:
        self._done(dict.fromkeys(self._partitions, error))

    def answered(self, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        """Report the outcome. A partition that the response does not mention has to be retried."""
        self._done(
            {where: errors.get(where, ErrorCode.NETWORK_EXCEPTION) for where in self._partitions}
        )
