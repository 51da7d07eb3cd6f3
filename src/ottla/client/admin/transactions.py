"""Administration of transactions: who has one open, since when and where, and how to end it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.client.admin.part import AdminPart
from ottla.client.admin.transaction_values import (
    DescribedTransaction,
    FencedProducer,
    ListedTransaction,
)
from ottla.client.network.connection import Connection
from ottla.client.network.coordinators import Answers, ask_coordinators, raise_for
from ottla.client.network.finding import CoordinatorType
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.client.producer.prepared import PreparedTransaction

FENCING_TIMEOUT_MS = 1


class TransactionAdmin(AdminPart):
    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """All transactional ids of the cluster that pass the filters.

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

        async def ask(node_id: int) -> list[ListedTransaction]:
            return await _list(await self._cluster.broker(node_id), node_id, request)

        return sorted(await self._of_each_broker(ask))

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, DescribedTransaction | KafkaError]:
        """What coordinators know of each; TRANSACTIONAL_ID_NOT_FOUND for one that nobody used."""
        return await ask_coordinators(
            self._cluster, transactional_ids, _describe, kind=CoordinatorType.TRANSACTION
        )

    async def describe_transaction(self, transactional_id: str) -> DescribedTransaction:
        found = (await self.describe_transactions([transactional_id]))[transactional_id]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def fence_producers(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, FencedProducer | KafkaError]:
        """Come as a new producer of each id: what is open is aborted, earlier ones are shut out.

        An id that nobody has used yet comes to be by this.
        """
        return await ask_coordinators(
            self._cluster, transactional_ids, _fence, kind=CoordinatorType.TRANSACTION
        )

    # Prepared by a producer that may be gone (KIP-939)

    async def commit_prepared(self, prepared: PreparedTransaction | str) -> None:
        """Commit what `Producer.prepare_transaction` made ready, in whatever process.

        Doing it again after it was done is no error.
        """
        await self._end_prepared(prepared, commit=True)

    async def abort_prepared(self, prepared: PreparedTransaction | str) -> None:
        """Abort what `Producer.prepare_transaction` made ready, in whatever process."""
        await self._end_prepared(prepared, commit=False)

    async def _end_prepared(self, prepared: PreparedTransaction | str, *, commit: bool) -> None:
        from ottla.client.producer.prepared import PreparedTransaction, end_prepared

        if isinstance(prepared, str):
            prepared = PreparedTransaction.parse(prepared)
        await end_prepared(self._cluster, prepared, commit=commit)


async def _list(connection: Connection, node_id: int, request: Any) -> list[ListedTransaction]:
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
