"""Verification of transactional writes: a leader asks the coordinator whether the producer has
added the partition to its transaction, before it appends the first batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.storage.producers.checks import has_transaction
from ottla.broker.storage.producers.verification import Verification
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition


def begin_verification(
    partition: Partition,
    producer_id: int,
    epoch: int,
    sequence: int,
    now_ms: int,
    *,
    epochs_grow: bool,
) -> Verification | None:
    """Note, before a transactional batch, that its coordinator is to be asked. Returns `None` if
    the transaction is already open here, so nothing must be asked."""
    producers = partition.usable_log().producers
    entry = producers.producers.get(producer_id)
    if entry is not None:
        if epoch < entry.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} is at epoch {entry.producer_epoch} in {partition}, the "
                f"batch at {epoch}",
            )
        if has_transaction(entry, epoch):
            return None
    return producers.begin_verification(
        producer_id, epoch, sequence, now_ms, epochs_grow=epochs_grow
    )


def is_void(partition: Partition, verification: Verification, producer_id: int, epoch: int) -> bool:
    """True if a marker came after the question: the coordinator has to be asked again."""
    if partition.log is None:
        return False  # the append will raise the reason
    producers = partition.log.producers
    return producers.verifications.get(producer_id) is not verification and not (
        has_transaction(producers.producers.get(producer_id), epoch)
    )
