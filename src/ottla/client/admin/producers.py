"""Producers as partitions know them, and the way out of a transaction that hangs in one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ottla.client.admin.part import indexes_by_topic
from ottla.client.admin.topics import TopicAdmin
from ottla.client.admin.transaction_values import ActiveProducer, HangingTransaction
from ottla.client.admin.transactions import TransactionAdmin
from ottla.client.network.coordinators import raise_for
from ottla.client.network.leaders import Answers, all_or_raise, ask_leaders
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

NONE_OPEN = -1
IDLE_MS_DEFAULT = 15 * 60_000
"""More than any transaction may take, as transaction.max.timeout.ms is by default."""


class ProducerAdmin(TransactionAdmin, TopicAdmin):
    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        """The producers that each partition has heard of lately."""
        from ottla.protocol.messages.describe_producers import (
            DescribeProducersRequest,
            TopicRequest,
        )

        async def ask(node_id: int, own: list[TopicPartition]) -> Answers[list[ActiveProducer]]:
            request = DescribeProducersRequest(
                topics=[
                    TopicRequest(name=name, partition_indexes=indexes)
                    for name, indexes in indexes_by_topic(own).items()
                ]
            )
            response = await (await self._cluster.broker(node_id)).request(request)
            return {
                TopicPartition(topic.name, found.partition_index): _producers(topic.name, found)
                for topic in response.topics
                for found in topic.partitions
            }

        return await ask_leaders(self._cluster, partitions, ask)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
    ) -> None:
        """Write an abort marker into one partition, past the coordinator: only for a transaction
        that `find_hanging_transactions` shows. To abort what an id has open: `fence_producers`."""
        from ottla.protocol.messages.write_txn_markers import (
            WritableTxnMarker,
            WritableTxnMarkerTopic,
            WriteTxnMarkersRequest,
        )

        topic = WritableTxnMarkerTopic(
            name=partition.topic, partition_indexes=[partition.partition]
        )
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[topic],
            coordinator_epoch=coordinator_epoch,
        )

        async def ask(node_id: int, _own: list[TopicPartition]) -> Answers[None]:
            connection = await self._cluster.broker(node_id)
            response = await connection.request(WriteTxnMarkersRequest(markers=[marker]))
            raise_for(response.markers[0].topics[0].partitions[0].error_code)
            return {partition: None}

        all_or_raise(await ask_leaders(self._cluster, [partition], ask))

    async def find_hanging_transactions(
        self,
        topics: Iterable[str] | None = None,
        *,
        brokers: Collection[int] | None = None,
        idle_ms: int = IDLE_MS_DEFAULT,
    ) -> list[HangingTransaction]:
        """Transactions that are open in a partition, without news for so long, while their
        coordinator knows nothing of it: readers of committed records wait for them for ever."""
        suspects = await self._suspects(topics, brokers, idle_ms)
        if not suspects:
            return []
        ids = sorted({suspect.producer_id for suspect in suspects})
        owners = {
            found.producer_id: found.transactional_id
            for found in await self.list_transactions(producer_ids=ids)
        }
        known = await self.describe_transactions(set(owners.values()))
        hanging: list[HangingTransaction] = []
        for suspect in suspects:
            owner = owners.get(suspect.producer_id)
            found = None if owner is None else known[owner]
            if isinstance(found, KafkaError):
                if found.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise found
                found = None
            if found is None or (suspect.topic, suspect.partition) not in found.partitions:
                hanging.append(HangingTransaction(suspect, owner))
        return hanging

    async def _suspects(
        self, topics: Iterable[str] | None, brokers: Collection[int] | None, idle_ms: int
    ) -> list[ActiveProducer]:
        partitions = [
            TopicPartition(name, partition.index)
            for name, topic in (await self.describe_topics(topics)).items()
            if not isinstance(topic, KafkaError)
            for partition in topic.partitions
            if brokers is None or partition.leader in brokers
        ]
        silent_since_ms = self._cluster.runtime.clock.wall_ms() - idle_ms
        found = all_or_raise(await self.describe_producers(partitions))
        return [
            producer
            for producers in found.values()
            for producer in producers
            if producer.open_since_offset is not None
            and producer.last_timestamp_ms < silent_since_ms
        ]


def _producers(topic: str, found: Any) -> list[ActiveProducer] | KafkaError:
    if code := ErrorCode.of(found.error_code):
        return KafkaError(code, f"{topic}-{found.partition_index}: {found.error_message or code}")
    return [
        ActiveProducer(
            topic=topic,
            partition=found.partition_index,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=producer.coordinator_epoch,
            last_sequence=producer.last_sequence,
            last_timestamp_ms=producer.last_timestamp,
            open_since_offset=None
            if producer.current_txn_start_offset == NONE_OPEN
            else producer.current_txn_start_offset,
        )
        for producer in found.active_producers
    ]
