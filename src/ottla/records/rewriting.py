"""A batch changed on its way in: recompressed, repaired, or stamped with the time of the append."""

import struct

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.records.builder import seal
from ottla.records.codec import Codec
from ottla.records.compression import compress
from ottla.records.crc import crc32c
from ottla.records.errors import InvalidBatch
from ottla.records.header import (
    ATTRIBUTES_LOW_BYTE_POSITION,
    CHECKED_FROM,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_POSITION,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    MAX_TIMESTAMP_POSITION,
    BatchHeader,
    batch_size_at,
)
from ottla.records.payload import encode_records
from ottla.records.reader import payload_of, read_payload
from ottla.records.record_checks import check_records
from ottla.records.rules import ProduceRules
from ottla.records.survey import Survey

_INT64 = struct.Struct(">q")
_UINT32 = struct.Struct(">I")


def needs_rewrite(header: BatchHeader, rules: ProduceRules) -> bool:
    """Whether a valid batch cannot be stored as it is.

    That is so when the topic wants another codec, or when the maximum timestamp is below the first
    record's, which would lead lookups by time astray.
    """
    if header.max_timestamp < header.base_timestamp and not rules.log_append_time:
        return True
    target = rules.compression
    if target is None or header.attributes & CODEC_MASK == target:
        return False
    # Control records are never compressed on the way in.
    return not (header.attributes & CONTROL_BIT and header.attributes & CODEC_MASK == Codec.NONE)


def is_as_claimed(header: BatchHeader, found: Survey, rules: ProduceRules) -> bool:
    """Whether the records are numbered one by one, and the highest timestamp is the header's."""
    if not found.is_consecutive:
        return False
    return rules.log_append_time or found.latest == header.max_timestamp


def open_produced(batch: Buffer, header: BatchHeader, rules: ProduceRules, now_ms: int) -> Buffer:
    """The batch as the topic wants it, or `InvalidBatch`. Belongs in a thread, since a small batch
    may hold millions of records.

    As in Kafka a highest timestamp that is not that of the records is put right, and so are
    offsets that do not count up.
    """
    payload = payload_of(header, batch, rules.decompressed_bytes_max)
    found = check_records(header, payload, rules, now_ms)
    if needs_rewrite(header, rules) or not is_as_claimed(header, found, rules):
        return _rewritten(batch, header, payload, found, rules, now_ms)
    return batch


def _rewritten(
    batch: Buffer,
    header: BatchHeader,
    payload: bytes,
    found: Survey,
    rules: ProduceRules,
    now_ms: int,
) -> bytes:
    """Offsets, timestamps, headers and the producer's fields stay."""
    source = header.codec
    target = source if rules.compression is None else rules.compression
    if not found.is_consecutive:
        payload = _renumbered(header, payload)
    if found.is_consecutive and target is source:
        data = bytes(memoryview(batch)[HEADER_SIZE : header.size])
    else:
        data = compress(target, payload, rules.compression_level)
    max_timestamp = now_ms if rules.log_append_time else found.latest
    attributes = header.attributes & ~(CODEC_MASK | LOG_APPEND_TIME_BIT) | target
    if rules.log_append_time:
        attributes |= LOG_APPEND_TIME_BIT
    result = seal(header._replace(attributes=attributes, max_timestamp=max_timestamp), data)
    if len(result) > rules.max_message_bytes:
        raise InvalidBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.size} bytes takes {len(result)} with the topic's compression.type "
            f"{target.name.lower()}; max.message.bytes is {rules.max_message_bytes}",
        )
    return result


def stamp_log_append_time(batch: Buffer, now_ms: int) -> Buffer:
    """Make `now_ms` the time of every record, by the header alone; in place unless read-only."""
    view = memoryview(batch)
    if view.readonly:
        view = memoryview(bytearray(view))
    view[ATTRIBUTES_LOW_BYTE_POSITION] |= LOG_APPEND_TIME_BIT
    _INT64.pack_into(view, MAX_TIMESTAMP_POSITION, now_ms)
    checked = view[CHECKED_FROM : batch_size_at(view)]
    _UINT32.pack_into(view, CRC_POSITION, crc32c(checked))
    return view


def _renumbered(header: BatchHeader, payload: bytes) -> bytes:
    """The records with consecutive offsets: some old clients number them wrongly."""
    records = (
        record._replace(offset=offset)
        for offset, record in enumerate(read_payload(header, payload), header.base_offset)
    )
    return encode_records(records, header.base_offset, header.base_timestamp)
