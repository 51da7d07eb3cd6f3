"""EndTxn: is this the client, and may the transaction end this way now?

With protocol 1 the epoch stays as it is, so the state alone tells a repeated request. With protocol
2 each end gives the client a new epoch. A request in the epoch before repeats one whose answer was
lost; one in the present epoch concerns the next transaction, to which nothing may have been added:

                      in the epoch before        in the present epoch
                      abort       commit         abort          commit
    Empty             fenced      fenced         ends           refused
    CompleteAbort     done        refused        ends           refused
    CompleteCommit    refused     done           ends           refused
    PrepareX          wait (same outcome) or refused            fenced
    Ongoing           fenced      fenced         ends           ends
"""

from __future__ import annotations

from ottla.coordinator.transactions.states import (
    AT_REST,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
)
from ottla.coordinator.transactions.transaction import (
    EPOCH_BUMP_FROM,
    EPOCH_LAST,
    Identity,
    Transaction,
)
from ottla.protocol.errors import ErrorCode


def judge_end(
    transaction: Transaction, client: Identity, *, commit: bool, version: int
) -> ErrorCode | None:
    """None: it ends now. NONE: it had ended just so, answer as if it were the first time."""
    if version >= EPOCH_BUMP_FROM:
        return _judge_bumping(transaction, client, commit=commit)
    if client.producer_id != transaction.identity.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if client.producer_epoch != transaction.identity.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state is ONGOING:
        return None
    return _judge_repeated(transaction, commit=commit)


def _judge_bumping(transaction: Transaction, client: Identity, *, commit: bool) -> ErrorCode | None:
    if _repeats(transaction, client):
        return _judge_repeated(transaction, commit=commit)
    if client.producer_id != transaction.identity.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.state in PREPARED or (
        client.producer_epoch != transaction.identity.producer_epoch
    ):
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in AT_REST and commit:
        return ErrorCode.INVALID_TXN_STATE
    return None


def _repeats(transaction: Transaction, client: Identity) -> bool:
    """Whether the client's epoch is the one that ended the transaction.

    Only an end by protocol 2 leaves such an epoch behind: where protocol 1 ended it, the epoch
    before this one is that of another producer, which was fenced.
    """
    if transaction.client_version < EPOCH_BUMP_FROM:
        return False
    after = Identity(client.producer_id, client.producer_epoch + 1)
    own = Identity(transaction.producer_id, transaction.producer_epoch)
    if transaction.state in PREPARED:
        return after in (own, transaction.following)
    if transaction.state not in (COMPLETE_ABORT, COMPLETE_COMMIT):
        return False
    changed_id = client == Identity(transaction.previous_producer_id, EPOCH_LAST)
    return after == own or (changed_id and transaction.producer_epoch == 0)


def _judge_repeated(transaction: Transaction, *, commit: bool) -> ErrorCode:
    state = transaction.state
    committed = state in (PREPARE_COMMIT, COMPLETE_COMMIT)
    if state is EMPTY or commit != committed:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.CONCURRENT_TRANSACTIONS if state in PREPARED else ErrorCode.NONE
