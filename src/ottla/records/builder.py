"""Records -> batch."""

from collections.abc import Sequence

from ottla.records.codec import Codec
from ottla.records.compression import compress
from ottla.records.crc import crc32c
from ottla.records.header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_checked_fields,
    pack_header,
)
from ottla.records.payload import encode_records
from ottla.records.record import Record

__all__ = ["Record", "build_batch", "seal"]


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
    """One batch of `records`, whose offsets must rise.

    `base_offset` and `last_offset` are those of the first and last record unless given: compaction
    keeps the range of a batch that lost records. `log_append_time` becomes the timestamp of every
    record.
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
    """Header and (compressed) records as one batch, with the right length and checksum."""
    crc = crc32c(payload, crc32c(pack_checked_fields(header)))
    batch_length = HEADER_SIZE - LOG_OVERHEAD + len(payload)
    return pack_header(header._replace(batch_length=batch_length, crc=crc)) + payload
