"""InitProducerId: which identity a producer gets that comes, or comes back, to a transactional id.

A producer that names no identity is a new instance and fences all before it. One that names its
own goes on after an error, and is fenced itself if another has come in between.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.transactions.settings import TransactionSettings
from ottla.coordinator.transactions.states import ONGOING, PREPARED
from ottla.coordinator.transactions.transaction import (
    EPOCH_LAST,
    NO_EPOCH,
    NOBODY,
    Identity,
    Transaction,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest


def check_request(request: InitProducerIdRequest, settings: TransactionSettings) -> None:
    """What is wrong with the request whatever the state of the id."""
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
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


def expected_identity(request: InitProducerIdRequest) -> Identity | None:
    """The identity that the client says it has, if it does."""
    named = Identity(request.producer_id, request.producer_epoch)
    if named == NOBODY:
        return None
    if NO_EPOCH in named:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "a producer id and its epoch must be given together"
        )
    return named


def check_client(transaction: Transaction, expected: Identity | None) -> None:
    """Refuse a client that was fenced, and one that must wait for the markers."""
    if expected is not None and not _is_client(transaction, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED, f"{expected} is not the producer any more")
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "its last transaction is being ended")
    if transaction.state is ONGOING and expected is not None and expected != transaction.identity:
        # Kafka would abort the transaction of the present producer here, for a fenced one.
        raise KafkaError(ErrorCode.PRODUCER_FENCED, f"{expected} is not the producer any more")


def _is_client(transaction: Transaction, expected: Identity) -> bool:
    """By its producer id; the epoch is looked at when a new one is chosen."""
    if transaction.producer_epoch == NO_EPOCH:
        return True  # a new entry: the id was forgotten meanwhile, and nobody else has it
    if expected.producer_id == transaction.identity.producer_id:
        return True
    return (
        expected.producer_id == transaction.previous_producer_id
        and expected.producer_epoch >= EPOCH_LAST
    )


def next_identity(
    transaction: Transaction, expected: Identity | None, take_producer_id: Callable[[], int]
) -> tuple[Identity, int]:
    """The identity for a client to whose id no transaction is open, and its epoch before that."""
    producer_id, epoch = transaction.producer_id, transaction.producer_epoch
    is_current = expected is None or expected == (producer_id, epoch)
    last_epoch = NO_EPOCH if expected is None else epoch
    if transaction.epochs_are_exhausted and is_current:
        return Identity(take_producer_id(), 0), last_epoch
    if is_current or epoch == NO_EPOCH:
        return Identity(producer_id, epoch + 1), last_epoch
    if expected is not None and expected.producer_epoch == transaction.last_producer_epoch:
        return Identity(producer_id, epoch), transaction.last_producer_epoch  # asked again
    raise KafkaError(ErrorCode.PRODUCER_FENCED, f"{expected} is not the producer any more")


def keeping_identity(transaction: Transaction, take_producer_id: Callable[[], int]) -> Identity:
    """The identity for a client that takes over the open transaction to end it."""
    producer_id, epoch = transaction.identity
    if epoch >= EPOCH_LAST:
        return Identity(take_producer_id(), 0)
    return Identity(producer_id, epoch + 1)
