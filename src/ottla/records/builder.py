"""Records -> batch."""

import struct
from collections.abc import Sequence

from ottla.records.codec import Codec
from ottla.records.compression import compress
from ottla.records.crc import crc32c
from ottla.records.engine import PayloadWriter
from ottla.records.header import (
    CHECKED_FROM,
    CONTROL_BIT,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    PRODUCER_POSITION,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_checked_fields,
    pack_header,
)
from ottla.records.payload import encode_records
from ottla.records.record import Record

__all__ = ["Record", "build_batch", "restamp", "seal", "seal_payload"]

_PRODUCER = struct.Struct(">qhi")
_UINT32 = struct.Struct(">I")


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """Build one batch of `records`, whose offsets must ascend.

    `base_offset` and `last_offset` are those of the first and last record unless given: compaction
    keeps the offset range of a batch that lost records. `log_append_time` becomes the timestamp of
    every record.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    base = records[0].offset if base_offset is None else base_offset
    last = records[-1].offset if last_offset is None else last_offset
    base_timestamp = records[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    max_timestamp = max(record.timestamp for record in records)
    attributes = (
        codec
        | (0 if log_append_time is None else LOG_APPEND_TIME_BIT)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (0 if delete_horizon_ms is None else DELETE_HORIZON_BIT)
    )
    header = BatchHeader(
        base_offset=base,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last - base,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp if log_append_time is None else log_append_time,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    payload = encode_records(records, base, base_timestamp)
    return seal(header, compress(codec, payload, level) if codec else payload)


def seal(header: BatchHeader, payload: bytes) -> bytes:
    """Join header and (compressed) records to a batch, with the right length and checksum."""
    crc = crc32c(payload, crc32c(pack_checked_fields(header)))
    batch_length = HEADER_SIZE - LOG_OVERHEAD + len(payload)
    return pack_header(header._replace(batch_length=batch_length, crc=crc)) + payload


def seal_payload(
    writer: PayloadWriter,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """Build the batch that a producer sends: the writer's records, with base offset 0.

    The writer is not changed.
    """
    if not writer.count:
        raise ValueError("a batch needs at least one record")
    records = writer.payload()
    data = compress(codec, records, level) if codec else records
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_SIZE - LOG_OVERHEAD + len(data),
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL_BIT if transactional else 0),
        last_offset_delta=writer.count - 1,
        base_timestamp=writer.base_timestamp,
        max_timestamp=writer.max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=writer.count,
    )
    batch = bytearray(pack_header(header))
    batch += data
    _set_crc(batch)
    return batch


def restamp(batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Set a new producer id, epoch and sequence in a built batch."""
    _PRODUCER.pack_into(batch, PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    _set_crc(batch)


def _set_crc(batch: bytearray) -> None:
    with memoryview(batch) as view:
        _UINT32.pack_into(batch, CRC_POSITION, crc32c(view[CHECKED_FROM:]))
