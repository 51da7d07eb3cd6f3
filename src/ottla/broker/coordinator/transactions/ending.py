"""EndTxn: decides whether this client may end the transaction this way now.

With protocol 1 the epoch does not change, so the state alone shows that a request is repeated. With
protocol 2 each end gives the client a new epoch. A request with the previous epoch then repeats one
whose answer was lost; one with the present epoch concerns the next transaction, to which nothing
may have been added yet:

                      with the previous epoch    with the present epoch
                      abort       commit         abort          commit
    Empty             fenced      fenced         ends           refused
    CompleteAbort     done        refused        ends           refused
    CompleteCommit    refused     done           ends           refused
    PrepareX          wait        wait           wait           wait
    Ongoing           fenced      fenced         ends           ends

While the markers of the last transaction are being written (PrepareX), the client may already be at
its next one, with the new epoch. Every client is then told to wait: as in Kafka, the pending
transition is checked before ids and epochs. Clients retry on CONCURRENT_TRANSACTIONS and give up on
PRODUCER_FENCED.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TypeAlias

from ottla.broker.coordinator.transactions.states import (
    AT_REST,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARED,
)
from ottla.broker.coordinator.transactions.transaction import (
    EPOCH_BUMP_FROM,
    EPOCH_LAST,
    Identity,
    Transaction,
)
from ottla.protocol.errors import ErrorCode


class End(Enum):
    PROCEED = auto()
    """The transaction ends now."""
    ALREADY_DONE = auto()
    """It has already ended this way: send the same answer again."""


Judgement: TypeAlias = End | ErrorCode
"""The decision, or the error that refuses the request."""


def judge_end(
    transaction: Transaction, client: Identity, *, commit: bool, version: int
) -> Judgement:
    if version >= EPOCH_BUMP_FROM:
        return _judge_bumping(transaction, client, commit=commit)
    if client.producer_id != transaction.identity.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if client.producer_epoch != transaction.identity.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is ONGOING:
        return End.PROCEED
    return _judge_repeated(transaction, commit=commit)


def _judge_bumping(transaction: Transaction, client: Identity, *, commit: bool) -> Judgement:
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if _repeats(transaction, client):
        return _judge_repeated(transaction, commit=commit)
    if client.producer_id != transaction.identity.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if client.producer_epoch != transaction.identity.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in AT_REST and commit:
        return ErrorCode.INVALID_TXN_STATE
    return End.PROCEED


def _repeats(transaction: Transaction, client: Identity) -> bool:
    """True if the client's epoch is the one that ended the transaction.

    Only an end by protocol 2 leaves such an epoch behind. If protocol 1 ended it, the previous
    epoch belongs to another producer, which was fenced.
    """
    if transaction.client_version < EPOCH_BUMP_FROM:
        return False
    if transaction.state not in (COMPLETE_ABORT, COMPLETE_COMMIT):
        return False
    after = Identity(client.producer_id, client.producer_epoch + 1)
    changed_id = client == Identity(transaction.previous_producer_id, EPOCH_LAST)
    return after == (transaction.producer_id, transaction.producer_epoch) or (
        changed_id and transaction.producer_epoch == 0
    )


def _judge_repeated(transaction: Transaction, *, commit: bool) -> Judgement:
    if transaction.state is EMPTY or commit != (transaction.state is COMPLETE_COMMIT):
        return ErrorCode.INVALID_TXN_STATE
    return End.ALREADY_DONE
