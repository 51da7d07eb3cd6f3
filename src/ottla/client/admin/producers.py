"""Admin calls for the producers of partitions, and for aborting hanging transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ottla.client.admin.link import AdminLink
from ottla.client.admin.partitions import indexes_by_topic
from ottla.client.admin.topics import describe_topics
from ottla.client.admin.transaction_values import ActiveProducer, HangingTransaction
from ottla.client.admin.transactions import describe_transactions, transactions_of
from ottla.client.network.coordinators import raise_for
from ottla.client.network.leaders import Answers, all_or_raise, ask_leaders
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

NONE_OPEN = -1
IDLE_MS_DEFAULT = 15 * 60_000
"""The default of transaction.max.timeout.ms: no transaction may take longer."""


class ProducerAdmin:
    _link: AdminLink

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        """Return the active producers of each partition."""
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
            response = await (await self._link.cluster.broker(node_id)).request(request)
            return {
                TopicPartition(topic.name, found.partition_index): _producers(topic.name, found)
                for topic in response.topics
                for found in topic.partitions
            }

        return await ask_leaders(self._link.cluster, partitions, ask)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
    ) -> None:
        """Write an abort marker to one partition without asking the coordinator. Use it only for a
        transaction from `find_hanging_transactions`. To abort the open transaction of a
        transactional id, use `fence_producers`."""
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
            connection = await self._link.cluster.broker(node_id)
            response = await connection.request(WriteTxnMarkersRequest(markers=[marker]))
            raise_for(response.markers[0].topics[0].partitions[0].error_code)
            return {partition: None}

        all_or_raise(await ask_leaders(self._link.cluster, [partition], ask))

    async def find_hanging_transactions(
        self,
        topics: Iterable[str] | None = None,
        *,
        brokers: Collection[int] | None = None,
        idle_ms: int = IDLE_MS_DEFAULT,
    ) -> list[HangingTransaction]:
        """Return transactions that are open in a partition and idle for `idle_ms`, but unknown to
        their coordinator: they block read_committed consumers for ever."""
        suspects = await self._suspects(topics, brokers, idle_ms)
        if not suspects:
            return []
        ids = sorted({suspect.producer_id for suspect in suspects})
        owners = {
            found.producer_id: found.transactional_id
            for found in await transactions_of(self._link, ids)
        }
        known = await describe_transactions(self._link.cluster, set(owners.values()))
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
            for name, topic in (await describe_topics(self._link.cluster, topics)).items()
            if not isinstance(topic, KafkaError)
            for partition in topic.partitions
            if brokers is None or partition.leader in brokers
        ]
        silent_since_ms = self._link.cluster.runtime.clock.wall_ms() - idle_ms
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
