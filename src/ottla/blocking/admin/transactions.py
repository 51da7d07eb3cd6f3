"""Transactions and producers, without `await`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ottla.blocking.admin.calls import AdminCalls
from ottla.client.admin.producers import IDLE_MS_DEFAULT
from ottla.client.admin.transaction_values import (
    ActiveProducer,
    DescribedTransaction,
    FencedProducer,
    HangingTransaction,
    ListedTransaction,
)
from ottla.client.producer.prepared import PreparedTransaction
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError


class TransactionCalls(AdminCalls):
    def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        return self._call(
            lambda: self._admin.list_transactions(
                states=states, producer_ids=producer_ids, open_for_ms=open_for_ms, pattern=pattern
            )
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, DescribedTransaction | KafkaError]:
        return self._call(lambda: self._admin.describe_transactions(transactional_ids))

    def describe_transaction(self, transactional_id: str) -> DescribedTransaction:
        return self._call(lambda: self._admin.describe_transaction(transactional_id))

    def fence_producers(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, FencedProducer | KafkaError]:
        return self._call(lambda: self._admin.fence_producers(transactional_ids))

    def commit_prepared(self, prepared: PreparedTransaction | str) -> None:
        return self._call(lambda: self._admin.commit_prepared(prepared))

    def abort_prepared(self, prepared: PreparedTransaction | str) -> None:
        return self._call(lambda: self._admin.abort_prepared(prepared))

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        return self._call(lambda: self._admin.describe_producers(partitions))

    def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
    ) -> None:
        return self._call(
            lambda: self._admin.abort_transaction(
                partition, producer_id, producer_epoch, coordinator_epoch
            )
        )

    def find_hanging_transactions(
        self,
        topics: Iterable[str] | None = None,
        *,
        brokers: Collection[int] | None = None,
        idle_ms: int = IDLE_MS_DEFAULT,
    ) -> list[HangingTransaction]:
        return self._call(
            lambda: self._admin.find_hanging_transactions(topics, brokers=brokers, idle_ms=idle_ms)
        )
