"""ListTransactions and DescribeTransactions, for one shard."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from ottla.broker.coordinator.transactions.states import BY_TITLE
from ottla.broker.coordinator.transactions.transaction import Transaction, by_topic
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_transactions import TopicData
from ottla.protocol.messages.describe_transactions import TransactionState as DescribedState
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.protocol.messages.list_transactions import TransactionState as ListedState


def list_transactions(
    transactions: Iterable[Transaction],
    request: ListTransactionsRequest,
    name_matches: Callable[[str], object],
    now_ms: int,
) -> Generator[None, None, ListTransactionsResponse]:
    """Return the transactions that pass all filters. Pauses at each, because there may be many."""
    states = {BY_TITLE[name] for name in request.state_filters if name in BY_TITLE}
    producer_ids = set(request.producer_id_filters)

    def wanted(transaction: Transaction) -> bool:
        if producer_ids and transaction.producer_id not in producer_ids:
            return False
        if request.state_filters and transaction.state not in states:
            return False
        if request.duration_filter >= 0 and (
            transaction.start_ms < 0 or now_ms - transaction.start_ms <= request.duration_filter
        ):
            return False
        return bool(name_matches(transaction.transactional_id))

    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in BY_TITLE]
    )
    for transaction in transactions:
        if wanted(transaction):
            listed = ListedState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.title,
            )
            response.transaction_states.append(listed)
        yield
    return response


def describe_transaction(transactional_id: str, found: Transaction | None) -> DescribedState:
    if found is None:
        return DescribedState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    return DescribedState(
        transactional_id=transactional_id,
        transaction_state=found.state.title,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(found.partitions).items()
        ],
    )
