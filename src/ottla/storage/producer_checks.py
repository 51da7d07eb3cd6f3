"""Whether a leader may append what a producer sent: nothing twice, no gap, nothing of the past.

The rules are Kafka's. A partition that does not know a producer (it is new here, or its entry has
expired, or its records are gone) takes any first sequence; one that knows it goes on where it
ended, and begins at 0 with each new epoch. The broker never answers UNKNOWN_PRODUCER_ID any more.
"""

from __future__ import annotations

from typing import Final

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from ottla.storage.producer_state import (
    NO_OFFSET,
    SEQUENCE_MODULUS,
    BatchMemory,
    ProducerEntry,
    ProducerState,
)
from ottla.storage.verification import Verification

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
EPOCH_MAX: Final = 32767
GROWING_EPOCHS_FROM: Final = 2
"""The transaction protocol in which the end of a transaction carries a higher epoch than its
records."""


def check_produced(
    state: ProducerState,
    header: BatchHeader,
    verification: Verification | None = None,
    *,
    must_verify: bool = True,
) -> BatchMemory | None:
    """Judge a client's batch with a producer id. `None`: append it. Otherwise it is here already,
    as the batch returned, and the client gets that one's offsets.

    `verification`: that the coordinator has been asked about the transaction, where the producer
    has none open here. `must_verify`: refuse what no coordinator was asked about.
    """
    epoch, first = header[10], header[11]
    entry = state.producers.get(header[9])
    is_transactional = header[5] & TRANSACTIONAL_BIT
    if entry is not None and entry.producer_epoch == epoch and entry.batches:
        follows = (entry.batches[-1][0] + 1) % SEQUENCE_MODULUS == first
        if follows and (entry.transaction_first_offset != NO_OFFSET) == bool(is_transactional):
            return None  # The next one of many, which is what nearly all batches are.
        if not follows:
            last = (first + header[6]) % SEQUENCE_MODULUS
            duplicate = entry.find_batch(epoch, first, last)
            if duplicate is not None:
                return duplicate
    if is_transactional and must_verify:
        _check_verified(state, entry, header, verification)
    _check_epoch(entry, header)
    _check_sequence(entry, header, state.verifications.get(header[9]))
    if is_transactional:
        state.verifications.pop(header[9], None)
    elif entry is not None and entry.transaction_first_offset != NO_OFFSET:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {header[9]} has a transaction open, and sent a batch outside of it",
        )
    return None


def check_coordinated(state: ProducerState, header: BatchHeader) -> None:
    """Judge a batch that a coordinator writes in the name of a producer: it has no sequence."""
    _check_epoch(state.producers.get(header[9]), header)
    if header[5] & TRANSACTIONAL_BIT and not header[5] & CONTROL_BIT:
        state.verifications.pop(header[9], None)


def check_marker(
    state: ProducerState, header: BatchHeader, coordinator_epoch: int, transaction_version: int
) -> None:
    """Judge the end of a transaction. One that ends nothing may be written all the same: it is
    repeated where the first one's success was not heard of, and it fences."""
    entry = state.producers.get(header[9])
    if entry is not None:
        _check_marker_epoch(entry, header[10], transaction_version)
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a coordinator of epoch {coordinator_epoch} ends a transaction of producer "
                f"{header[9]}, which has been served by one of epoch {entry.coordinator_epoch}",
            )
    state.verifications.pop(header[9], None)


def _check_marker_epoch(entry: ProducerEntry, epoch: int, transaction_version: int) -> None:
    known = entry.producer_epoch
    if epoch > known or (epoch == known and transaction_version < GROWING_EPOCHS_FROM):
        return
    if epoch == known and (entry.transaction_first_offset == NO_OFFSET or epoch == EPOCH_MAX):
        return  # The same marker once more.
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
    if has_transaction(entry, header[10]):
        return
    _check_epoch(entry, header)
    # It must be the very one that is noted here: if the transaction ended in the meantime, what
    # the coordinator said is not worth anything any more.
    if verification is None or state.verifications.get(header[9]) is not verification:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"the batch of producer {header[9]} is not part of an open transaction",
        )


def has_transaction(entry: ProducerEntry | None, epoch: int) -> bool:
    return (
        entry is not None
        and entry.transaction_first_offset != NO_OFFSET
        and entry.producer_epoch == epoch
    )


def _check_epoch(entry: ProducerEntry | None, header: BatchHeader) -> None:
    if entry is not None and header[10] < entry.producer_epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {header[9]} is at epoch {entry.producer_epoch} here, the batch at "
            f"{header[10]}",
        )


def _check_sequence(
    entry: ProducerEntry | None, header: BatchHeader, verification: Verification | None
) -> None:
    first, epoch = header[11], header[10]
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
        f"producer {header[9]} sent sequence {header[11]}, but {why}",
    )
