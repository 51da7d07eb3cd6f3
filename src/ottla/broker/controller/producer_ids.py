"""Allocates producer ids in blocks, so that one id costs no write to the log."""

from __future__ import annotations

from ottla.broker.controller.broker_states import check_epoch
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.protocol.metadata_records.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE = 1_000
_INT64_MAX = 2**63 - 1


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Allocate the next ids, which no other broker will ever get; the rest of a block is lost with
    its broker."""
    check_epoch(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id
    if first > _INT64_MAX - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been handed out")
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return Decision([record], response)
