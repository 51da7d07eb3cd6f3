"""Checks whether a leader may append a producer's batch: no duplicates, no gaps, no old epochs.

The rules are Kafka's. A partition that does not know a producer (it is new here, its entry has
expired, or its records are gone) accepts any first sequence. A known producer continues at its next
sequence, and begins at 0 with each new epoch. The broker never answers UNKNOWN_PRODUCER_ID.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.storage.producers.state import (
    NO_OFFSET,
    SEQUENCE_MODULUS,
    BatchMemory,
    ProducerEntry,
    ProducerState,
)
from ottla.broker.storage.producers.verification import Verification
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from ottla.records.header_fields import (
    ATTRIBUTES,
    BASE_SEQUENCE,
    LAST_OFFSET_DELTA,
    PRODUCER_EPOCH,
    PRODUCER_ID,
)

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
EPOCH_MAX: Final = 32767
GROWING_EPOCHS_FROM: Final = 2
"""The transaction protocol version in which a marker has a higher epoch than the records of its
transaction."""


def check_produced(
    state: ProducerState,
    header: BatchHeader,
    verification: Verification | None = None,
    *,
    must_verify: bool = True,
) -> BatchMemory | None:
    """Check a client's batch with a producer id. `None`: append it. Otherwise the batch is a
    duplicate of the returned one, whose offsets the client gets.

    `verification`: proof that the coordinator was asked about the transaction, if the producer has
    none open here. `must_verify`: refuse a batch without such proof.
    """
    epoch, first = header[PRODUCER_EPOCH], header[BASE_SEQUENCE]
    entry = state.producers.get(header[PRODUCER_ID])
    is_transactional = header[ATTRIBUTES] & TRANSACTIONAL_BIT
    if entry is not None and entry.producer_epoch == epoch and entry.batches:
        follows = (entry.batches[-1].last_sequence + 1) % SEQUENCE_MODULUS == first
        if follows and (entry.transaction_first_offset != NO_OFFSET) == bool(is_transactional):
            return None  # the next batch in sequence, as nearly all are
        if not follows:
            last = (first + header[LAST_OFFSET_DELTA]) % SEQUENCE_MODULUS
            duplicate = entry.find_batch(epoch, first, last)
            if duplicate is not None:
                return duplicate
    if is_transactional and must_verify:
        _check_verified(state, entry, header, verification)
    _check_epoch(entry, header)
    _check_sequence(entry, header, state.verifications.get(header[PRODUCER_ID]))
    if is_transactional:
        state.verifications.pop(header[PRODUCER_ID], None)
    elif entry is not None and entry.transaction_first_offset != NO_OFFSET:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {header[PRODUCER_ID]} has a transaction open, and sent a batch outside of "
            "it",
        )
    return None


def check_coordinated(state: ProducerState, header: BatchHeader) -> None:
    """Check a batch that a coordinator writes for a producer: its sequence has no meaning."""
    _check_epoch(state.producers.get(header[PRODUCER_ID]), header)
    if header[ATTRIBUTES] & TRANSACTIONAL_BIT and not header[ATTRIBUTES] & CONTROL_BIT:
        state.verifications.pop(header[PRODUCER_ID], None)


def check_marker(
    state: ProducerState, header: BatchHeader, coordinator_epoch: int, transaction_version: int
) -> None:
    """Check a transaction marker. A marker that ends nothing is accepted: it is repeated if the
    success of the first one was not heard of, and it fences."""
    entry = state.producers.get(header[PRODUCER_ID])
    if entry is not None:
        _check_marker_epoch(entry, header[PRODUCER_EPOCH], transaction_version)
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a coordinator of epoch {coordinator_epoch} ends a transaction of producer "
                f"{header[PRODUCER_ID]}, which has been served by one of epoch "
                f"{entry.coordinator_epoch}",
            )
    state.verifications.pop(header[PRODUCER_ID], None)


def _check_marker_epoch(entry: ProducerEntry, epoch: int, transaction_version: int) -> None:
    known = entry.producer_epoch
    if epoch > known or (epoch == known and transaction_version < GROWING_EPOCHS_FROM):
        return
    if epoch == known and (entry.transaction_first_offset == NO_OFFSET or epoch == EPOCH_MAX):
        return  # the same marker again
    raise KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"the end of a transaction carries epoch {epoch} of producer {entry.producer_id}, which "
        f"is at {known}",
    )


def _check_verified(
    state: ProducerState,
    entry: ProducerEntry | None,
    header: BatchHeader,
    verification: Verification | None,
) -> None:
    if has_transaction(entry, header[PRODUCER_EPOCH]):
        return
    _check_epoch(entry, header)
    # It must be the verification noted here: if the transaction has ended meanwhile, the
    # coordinator's answer is no longer valid.
    if verification is None or state.verifications.get(header[PRODUCER_ID]) is not verification:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"the batch of producer {header[PRODUCER_ID]} is not part of an open transaction",
        )


def has_transaction(entry: ProducerEntry | None, epoch: int) -> bool:
    return (
        entry is not None
        and entry.transaction_first_offset != NO_OFFSET
        and entry.producer_epoch == epoch
    )


def _check_epoch(entry: ProducerEntry | None, header: BatchHeader) -> None:
    if entry is not None and header[PRODUCER_EPOCH] < entry.producer_epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {header[PRODUCER_ID]} is at epoch {entry.producer_epoch} here, the batch at "
            f"{header[PRODUCER_EPOCH]}",
        )


def _check_sequence(
    entry: ProducerEntry | None, header: BatchHeader, verification: Verification | None
) -> None:
    first, epoch = header[BASE_SEQUENCE], header[PRODUCER_EPOCH]
    if verification is not None:
        is_unknown = entry is None or not entry.batches
        if verification.epochs_grow and first != 0 and is_unknown:
            raise _out_of_order(header, "it has to begin with 0")
        if first > verification.lowest_sequence:
            raise _out_of_order(header, f"{verification.lowest_sequence} was sent and is missing")
    if entry is None or entry.producer_epoch == NO_EPOCH:
        return
    if epoch != entry.producer_epoch:
        if first != 0:
            raise _out_of_order(header, f"its epoch {epoch} is new and has to begin with 0")
        return
    last = entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE
    if first != (last + 1) % SEQUENCE_MODULUS:
        raise _out_of_order(header, f"the last one here is {last}")


def _out_of_order(header: BatchHeader, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header[PRODUCER_ID]} sent sequence {header[BASE_SEQUENCE]}, but {why}",
    )
