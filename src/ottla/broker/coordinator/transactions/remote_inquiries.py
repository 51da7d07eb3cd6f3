"""Asks other brokers, as coordinators, whether partitions are part of transactions:
AddPartitionsToTxn as brokers use it (version 4 and above), with many transactions per request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ottla.broker.coordinator.broker_batcher import BrokerBatcher
from ottla.broker.coordinator.transactions.transaction import Identity, TopicPartition, by_topic
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

_BEHIND: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE

Verdicts: TypeAlias = Mapping[TopicPartition, ErrorCode]
"""For each partition NONE if it is part of the transaction, or the error."""


class RemoteInquiries(BrokerBatcher["_Inquiry"]):
    LANE = "transactions"

    def ask(
        self,
        broker_id: int,
        transactional_id: str,
        client: Identity,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        then: Callable[[Verdicts], object],
    ) -> None:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=client.producer_id,
            producer_epoch=client.producer_epoch,
            verify_only=not add,
            topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        self.put(broker_id, _Inquiry(transaction, partitions, then))

    def pack(self, items: Sequence[_Inquiry]) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(transactions=[one.transaction for one in items])

    def unpack(self, items: Sequence[_Inquiry], response: AddPartitionsToTxnResponse) -> None:
        if response.error_code:
            for inquiry in items:
                inquiry.fail(ErrorCode.of(response.error_code))
            return
        by_transaction = {
            result.transactional_id: {
                (topic.name, partition.partition_index): ErrorCode.of(
                    partition.partition_error_code
                )
                for topic in result.topic_results
                for partition in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }
        for inquiry in items:
            inquiry.answered(by_transaction.get(inquiry.key, {}))


class _Inquiry:
    __slots__ = ("_partitions", "_then", "transaction")

    is_wanted = True

    def __init__(
        self,
        transaction: AddPartitionsToTxnTransaction,
        partitions: Sequence[TopicPartition],
        then: Callable[[Verdicts], object],
    ) -> None:
        self.transaction = transaction
        self._partitions = partitions
        self._then = then

    @property
    def key(self) -> str:
        return self.transaction.transactional_id

    def fail(self, error: ErrorCode) -> None:
        """Fail with an error on which the producer retries, whatever the cause."""
        self._then(dict.fromkeys(self._partitions, ErrorCode.NETWORK_EXCEPTION))

    def answered(self, errors: Verdicts) -> None:
        """Pass on the verdicts. The partitions are led here, so they exist: a coordinator that does
        not know one has outdated metadata."""
        verdicts = {where: errors.get(where, _BEHIND) for where in self._partitions}
        if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in verdicts.values():
            verdicts = dict.fromkeys(self._partitions, _BEHIND)
        self._then(verdicts)
