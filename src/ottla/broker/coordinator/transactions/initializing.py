"""InitProducerId: decides which identity a producer of a transactional id gets.

A producer that names no identity is a new instance and fences all earlier ones. A producer that
names its identity continues after an error, and is fenced itself if another has come since.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.coordinator.transactions.settings import TransactionSettings
from ottla.broker.coordinator.transactions.states import ONGOING, PREPARED
from ottla.broker.coordinator.transactions.transaction import (
    EPOCH_LAST,
    NO_EPOCH,
    NOBODY,
    Identity,
    Transaction,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest


def check_request(request: InitProducerIdRequest, settings: TransactionSettings) -> None:
    """Refuse an invalid request, whatever the state of the id: before its coordinator is looked up,
    as in Kafka."""
    expected_identity(request)
    check_id(request.transactional_id)
    if (request.enable2_pc or request.keep_prepared_txn) and not settings.two_phase_commit:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transaction.two.phase.commit.enable is false",
        )
    if not request.enable2_pc and not 0 < request.transaction_timeout_ms <= settings.timeout_max_ms:
        raise KafkaError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"{request.transaction_timeout_ms} ms; transaction.max.timeout.ms is "
            f"{settings.timeout_max_ms}",
        )


def check_id(transactional_id: str | None) -> None:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")


def expected_identity(request: InitProducerIdRequest) -> Identity | None:
    """Return the identity that the client names, if it does."""
    named = Identity(request.producer_id, request.producer_epoch)
    if named == NOBODY:
        return None
    if NO_EPOCH in named:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "a producer id and its epoch must be given together"
        )
    return named


def check_client(transaction: Transaction, expected: Identity | None) -> None:
    """Refuse any client while markers are being written, and a client that was fenced."""
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "its last transaction is being ended")
    if expected is not None and not _is_client(transaction, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED, f"{expected} is not the producer any more")
    if transaction.state is ONGOING and expected is not None and expected != transaction.identity:
        # For a fenced producer, Kafka would abort the transaction of the present producer here.
        raise KafkaError(ErrorCode.PRODUCER_FENCED, f"{expected} is not the producer any more")


def _is_client(transaction: Transaction, expected: Identity) -> bool:
    """True if the producer id is the client's; the epoch is checked when a new one is chosen."""
    if transaction.producer_epoch == NO_EPOCH:
        return True  # a new entry: the id had expired, so no other producer has it
    if expected.producer_id == transaction.identity.producer_id:
        return True
    return (
        expected.producer_id == transaction.previous_producer_id
        and expected.producer_epoch >= EPOCH_LAST
    )


def next_identity(
    transaction: Transaction, expected: Identity | None, take_producer_id: Callable[[], int]
) -> tuple[Identity, int]:
    """Return the new identity for a client without an open transaction, and the client's epoch
    before."""
    producer_id, epoch = transaction.producer_id, transaction.producer_epoch
    is_current = expected is None or expected == (producer_id, epoch)
    last_epoch = NO_EPOCH if expected is None else epoch
    if transaction.epochs_are_exhausted and is_current:
        return Identity(take_producer_id(), 0), last_epoch
    if is_current or epoch == NO_EPOCH:
        return Identity(producer_id, epoch + 1), last_epoch
    if expected is not None and expected.producer_epoch == transaction.last_producer_epoch:
        return Identity(producer_id, epoch), transaction.last_producer_epoch  # a repeated request
    raise KafkaError(ErrorCode.PRODUCER_FENCED, f"{expected} is not the producer any more")


def keeping_identity(transaction: Transaction, take_producer_id: Callable[[], int]) -> Identity:
    """Return the new identity for a client that takes over the open transaction to end it."""
    producer_id, epoch = transaction.identity
    if epoch >= EPOCH_LAST:
        return Identity(take_producer_id(), 0)
    return Identity(producer_id, epoch + 1)
