"""Blocks of producer ids: handed to a broker whole, so that one id costs no write to the log."""

from __future__ import annotations

from ottla.metadata.decision import Decision
from ottla.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.metadata_records.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE = 1_000
_INT64_MAX = 2**63 - 1


def allocate_block(image: MetadataImage, broker_id: int) -> Decision[range]:
    """The next ids, which nobody else will ever get; the rest of a block dies with its broker."""
    first = image.next_producer_id
    if first > _INT64_MAX - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been handed out")
    broker = image.brokers.get(broker_id)
    record = ProducerIdsRecord(
        broker_id=broker_id,
        broker_epoch=-1 if broker is None else broker.epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    return Decision([record], range(first, first + BLOCK_SIZE))
