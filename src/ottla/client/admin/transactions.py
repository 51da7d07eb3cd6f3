"""Admin calls for transactions: list and describe them, fence producers, end prepared ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.client.admin.link import AdminLink
from ottla.client.admin.transaction_values import (
    DescribedTransaction,
    FencedProducer,
    ListedTransaction,
)
from ottla.client.network.coordinators import Answers, ask_coordinators, raise_for
from ottla.client.network.finding import CoordinatorType
from ottla.client.values import TopicPartition
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.client.network.cluster import Cluster
    from ottla.client.producer.transactions.prepared import PreparedTransaction

FENCING_TIMEOUT_MS = 1


class TransactionAdmin:
    _link: AdminLink

    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """Return all transactional ids of the cluster that match the filters.

        >>> await admin.list_transactions(states=["Ongoing"], open_for_ms=60_000)
        """
        from ottla.protocol.messages.list_transactions import ListTransactionsRequest

        request = ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producer_ids)
        )
        if open_for_ms is not None:
            request.duration_filter = open_for_ms
        if pattern is not None:
            request.transactional_id_pattern = pattern
        return await _list(self._link, request)

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, DescribedTransaction | KafkaError]:
        """Describe transactions; TRANSACTIONAL_ID_NOT_FOUND for an id that was never used."""
        return await describe_transactions(self._link.cluster, transactional_ids)

    async def describe_transaction(self, transactional_id: str) -> DescribedTransaction:
        found = (await self.describe_transactions([transactional_id]))[transactional_id]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def fence_producers(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, FencedProducer | KafkaError]:
        """Abort the open transaction of each id and fence its producers, by taking a new epoch.

        An id that was never used is created by this.
        """
        return await ask_coordinators(
            self._link.cluster, transactional_ids, _fence, kind=CoordinatorType.TRANSACTION
        )

    # Transactions prepared by a producer that may be gone (KIP-939)

    async def commit_prepared(self, prepared: PreparedTransaction | str) -> None:
        """Commit what `Producer.prepare_transaction` prepared, in any process.

        Committing it again is no error.
        """
        await self._end_prepared(prepared, commit=True)

    async def abort_prepared(self, prepared: PreparedTransaction | str) -> None:
        """Abort what `Producer.prepare_transaction` prepared, in any process."""
        await self._end_prepared(prepared, commit=False)

    async def _end_prepared(self, prepared: PreparedTransaction | str, *, commit: bool) -> None:
        from ottla.client.producer.transactions.prepared import PreparedTransaction, end_prepared

        if isinstance(prepared, str):
            prepared = PreparedTransaction.parse(prepared)
        await end_prepared(self._link.cluster, prepared, commit=commit)


async def transactions_of(link: AdminLink, producer_ids: Sequence[int]) -> list[ListedTransaction]:
    from ottla.protocol.messages.list_transactions import ListTransactionsRequest

    return await _list(link, ListTransactionsRequest(producer_id_filters=list(producer_ids)))


async def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str]
) -> Answers[DescribedTransaction]:
    return await ask_coordinators(
        cluster, transactional_ids, _describe, kind=CoordinatorType.TRANSACTION
    )


async def _list(link: AdminLink, request: Any) -> list[ListedTransaction]:
    async def ask(node_id: int) -> list[ListedTransaction]:
        return await _list_of(await link.cluster.broker(node_id), node_id, request)

    return sorted(await link.ask_each_broker(ask))


async def _list_of(connection: Connection, node_id: int, request: Any) -> list[ListedTransaction]:
    response = await connection.request(request)
    raise_for(response.error_code)
    if response.unknown_state_filters:
        unknown = ", ".join(response.unknown_state_filters)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no state {unknown}")
    return [
        ListedTransaction(
            found.transactional_id, node_id, found.producer_id, found.transaction_state
        )
        for found in response.transaction_states
    ]


async def _describe(
    connection: Connection, node_id: int, transactional_ids: list[str]
) -> Answers[DescribedTransaction]:
    from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest

    request = DescribeTransactionsRequest(transactional_ids=transactional_ids)
    response = await connection.request(request)
    return {
        found.transactional_id: _error(found.transactional_id, found.error_code)
        or _described(found, node_id)
        for found in response.transaction_states
    }


def _described(found: Any, node_id: int) -> DescribedTransaction:
    started = found.transaction_start_time_ms
    return DescribedTransaction(
        transactional_id=found.transactional_id,
        coordinator=node_id,
        state=found.transaction_state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        start_ms=started if started >= 0 else None,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, index)
                for topic in found.topics
                for index in topic.partitions
            )
        ),
    )


async def _fence(
    connection: Connection, _node: int, transactional_ids: list[str]
) -> Answers[FencedProducer]:
    from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

    answers: Answers[FencedProducer] = {}
    for name in transactional_ids:
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS
        )
        found = await connection.request(request)
        answers[name] = _error(name, found.error_code) or FencedProducer(
            found.producer_id, found.producer_epoch
        )
    return answers


def _error(transactional_id: str, code: int) -> KafkaError | None:
    if error := ErrorCode.of(code):
        return KafkaError(error, f"transactional id {transactional_id!r}: {error.message}")
    return None
