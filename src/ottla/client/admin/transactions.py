"""Administration of transactions: who has one open, since when and where, and how to end it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.client.network.cluster import Cluster
from ottla.client.network.finding import CoordinatorType
from ottla.protocol.errors import ErrorCode, KafkaError

NONE_OPEN = -1
FENCING_TIMEOUT_MS = 1


class ListedTransaction(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[tuple[str, int], ...]


class ActiveProducer(NamedTuple):
    """A producer as a partition knows it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    open_since_offset: int | None
    """The first offset of its open transaction, if one is open."""


class TransactionAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """All transactional ids of the cluster that pass the filters."""
        await self._cluster.refresh(())
        parts = await asyncio.gather(
            *(
                self._list_of(node_id, states, producer_ids, open_for_ms, pattern)
                for node_id in self._cluster.view.brokers
            )
        )
        return sorted(found for part in parts for found in part)

    async def _list_of(
        self,
        node_id: int,
        states: Sequence[str],
        producer_ids: Sequence[int],
        open_for_ms: int | None,
        pattern: str | None,
    ) -> Iterable[ListedTransaction]:
        from ottla.protocol.messages.list_transactions import ListTransactionsRequest

        async def attempt() -> Iterable[ListedTransaction]:
            connection = await self._cluster.broker(node_id)
            request = ListTransactionsRequest(
                state_filters=list(states), producer_id_filters=list(producer_ids)
            )
            if open_for_ms is not None:
                request.duration_filter = open_for_ms
            if pattern is not None:
                request.transactional_id_pattern = pattern
            response = await connection.request(request)
            _raise_for(response.error_code)
            if response.unknown_state_filters:
                unknown = ", ".join(response.unknown_state_filters)
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no state {unknown}")
            return [
                ListedTransaction(
                    found.transactional_id, node_id, found.producer_id, found.transaction_state
                )
                for found in response.transaction_states
            ]

        return await self._cluster.retrying(attempt)

    async def describe(self, transactional_id: str) -> DescribedTransaction:
        from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest

        async def attempt() -> DescribedTransaction:
            node_id = await self._coordinator_of(transactional_id)
            connection = await self._cluster.broker(node_id)
            request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
            (found,) = (await connection.request(request)).transaction_states
            _raise_for(found.error_code, f"transactional id {transactional_id!r}")
            return DescribedTransaction(
                transactional_id=transactional_id,
                coordinator=node_id,
                state=found.transaction_state,
                producer_id=found.producer_id,
                producer_epoch=found.producer_epoch,
                timeout_ms=found.transaction_timeout_ms,
                start_ms=None
                if found.transaction_start_time_ms < 0
                else found.transaction_start_time_ms,
                partitions=tuple(
                    (topic.topic, index) for topic in found.topics for index in topic.partitions
                ),
            )

        return await self._cluster.retrying(attempt)

    async def fence(self, transactional_id: str) -> tuple[int, int]:
        """Come as a new producer of the id: what is open is aborted, earlier producers are shut
        out. The producer id and epoch after that."""
        from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

        async def attempt() -> tuple[int, int]:
            connection = await self._cluster.broker(await self._coordinator_of(transactional_id))
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS
            )
            response = await connection.request(request)
            _raise_for(response.error_code, f"transactional id {transactional_id!r}")
            return response.producer_id, response.producer_epoch

        return await self._cluster.retrying(attempt)

    # Partitions

    async def producers(self, topic: str, partitions: Iterable[int]) -> list[ActiveProducer]:
        """Those that the partitions have heard of lately."""
        from ottla.protocol.messages.describe_producers import (
            DescribeProducersRequest,
            TopicRequest,
        )

        async def attempt() -> list[ActiveProducer]:
            await self._cluster.topic(topic)
            found: list[ActiveProducer] = []
            for node_id, indexes in (await self._cluster.by_leader(topic, partitions)).items():
                connection = await self._cluster.broker(node_id)
                request = DescribeProducersRequest(
                    topics=[TopicRequest(name=topic, partition_indexes=indexes)]
                )
                (answered,) = (await connection.request(request)).topics
                for partition in answered.partitions:
                    _raise_for(partition.error_code, partition.error_message)
                    found += [
                        ActiveProducer(
                            topic=topic,
                            partition=partition.partition_index,
                            producer_id=producer.producer_id,
                            producer_epoch=producer.producer_epoch,
                            coordinator_epoch=producer.coordinator_epoch,
                            last_sequence=producer.last_sequence,
                            last_timestamp_ms=producer.last_timestamp,
                            open_since_offset=None
                            if producer.current_txn_start_offset == NONE_OPEN
                            else producer.current_txn_start_offset,
                        )
                        for producer in partition.active_producers
                    ]
            return found

        return await self._cluster.retrying(attempt)

    async def abort(
        self,
        topic: str,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
    ) -> None:
        """Write an abort marker into one partition, past the coordinator: for a transaction that
        no coordinator will ever end."""
        from ottla.protocol.messages.write_txn_markers import (
            WritableTxnMarker,
            WritableTxnMarkerTopic,
            WriteTxnMarkersRequest,
        )

        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
            coordinator_epoch=coordinator_epoch,
        )

        async def attempt() -> None:
            await self._cluster.topic(topic)
            ((node_id, _),) = (await self._cluster.by_leader(topic, [partition])).items()
            connection = await self._cluster.broker(node_id)
            response = await connection.request(WriteTxnMarkersRequest(markers=[marker]))
            _raise_for(response.markers[0].topics[0].partitions[0].error_code)

        await self._cluster.retrying(attempt)

    async def hanging(
        self, partitions: Iterable[tuple[str, int]], idle_for_ms: int, now_ms: int
    ) -> list[tuple[ActiveProducer, str | None]]:
        """Transactions that are open in a partition, without news for so long, while their
        coordinator knows nothing of it; with the transactional id, where that is known."""
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        suspects = [
            producer
            for topic, indexes in by_topic.items()
            for producer in await self.producers(topic, indexes)
            if producer.open_since_offset is not None
            and now_ms - producer.last_timestamp_ms > idle_for_ms
        ]
        if not suspects:
            return []
        ids = sorted({suspect.producer_id for suspect in suspects})
        owners = {
            found.producer_id: found.transactional_id
            for found in await self.transactions(producer_ids=ids)
        }
        hanging: list[tuple[ActiveProducer, str | None]] = []
        for suspect in suspects:
            owner = owners.get(suspect.producer_id)
            if owner is None or not await self._takes_part(owner, suspect):
                hanging.append((suspect, owner))
        return hanging

    async def _takes_part(self, transactional_id: str, suspect: ActiveProducer) -> bool:
        try:
            found = await self.describe(transactional_id)
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return False
            raise
        return (suspect.topic, suspect.partition) in found.partitions

    # Coordinators

    async def _coordinator_of(self, transactional_id: str) -> int:
        kind = CoordinatorType.TRANSACTION
        found = (await self._cluster.find_coordinators(kind, [transactional_id]))[transactional_id]
        if isinstance(found, KafkaError):
            raise found
        return found.node_id


def _raise_for(code: int, message: str | None = None) -> None:
    if code:
        error = ErrorCode.of(code)
        raise KafkaError(error, f"{message}: {error.message}" if message else None)
