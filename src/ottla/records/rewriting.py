"""Changes a batch before its append: recompression, repair, or append timestamps."""

import struct

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.records.builder import seal
from ottla.records.codec import Codec
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, compress
from ottla.records.crc import crc32c
from ottla.records.engine import renumber_records
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
from ottla.records.reader import payload_of
from ottla.records.record_checks import check_records
from ottla.records.rules import ProduceRules
from ottla.records.survey import Survey

_INT64 = struct.Struct(">q")
_UINT32 = struct.Struct(">I")


def needs_rewrite(header: BatchHeader, rules: ProduceRules) -> bool:
    """True if a valid batch cannot be stored as it is.

    That is so if the topic wants another codec, or if the maximum timestamp is below the first
    record's, which would mislead lookups by time.
    """
    if header.max_timestamp < header.base_timestamp and not rules.log_append_time:
        return True
    target = rules.compression
    if target is None or header.attributes & CODEC_MASK == target:
        return False
    # Control records are never compressed before the append.
    return not (header.attributes & CONTROL_BIT and header.attributes & CODEC_MASK == Codec.NONE)


def is_as_claimed(header: BatchHeader, found: Survey, rules: ProduceRules) -> bool:
    """True if the offsets are consecutive, and the highest timestamp is that of the header."""
    if not found.is_consecutive:
        return False
    return rules.log_append_time or found.latest == header.max_timestamp


def open_produced(
    batch: Buffer,
    header: BatchHeader,
    rules: ProduceRules,
    now_ms: int,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> Buffer:
    """Return the batch as the topic wants it, or raise `InvalidBatch`. Run this in a thread, since
    a small batch may hold millions of records; raises `OpensTooLarge` if they take more than
    `bytes_max`.

    As in Kafka, a highest timestamp that is not that of the records is corrected, and so are
    offsets that are not consecutive.
    """
    payload = payload_of(header, batch, bytes_max)
    found = check_records(header, payload, rules, now_ms)
    if needs_rewrite(header, rules) or not is_as_claimed(header, found, rules):
        return _rewritten(batch, header, payload, found, rules, now_ms)
    return batch


def _rewritten(
    batch: Buffer,
    header: BatchHeader,
    payload: Buffer,
    found: Survey,
    rules: ProduceRules,
    now_ms: int,
) -> bytes:
    """Rewrite a batch. Offsets, timestamps, headers and the producer's fields stay."""
    source = header.codec
    target = source if rules.compression is None else rules.compression
    if target is Codec.NONE:
        _check_size(header, target, HEADER_SIZE + len(payload), rules)
    if not found.is_consecutive:
        payload = renumber_records(payload, header.record_count)
    if found.is_consecutive and target is source:
        data = bytes(memoryview(batch)[HEADER_SIZE : header.size])
    else:
        data = compress(target, payload, rules.compression_level, rules.max_message_bytes)
    max_timestamp = now_ms if rules.log_append_time else found.latest
    attributes = header.attributes & ~(CODEC_MASK | LOG_APPEND_TIME_BIT) | target
    if rules.log_append_time:
        attributes |= LOG_APPEND_TIME_BIT
    result = seal(header._replace(attributes=attributes, max_timestamp=max_timestamp), data)
    _check_size(header, target, len(result), rules)
    return result


def _check_size(header: BatchHeader, target: Codec, size: int, rules: ProduceRules) -> None:
    if size > rules.max_message_bytes:
        raise InvalidBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.size} bytes takes {size} or more with compression.type "
            f"{target.name.lower()}; max.message.bytes is {rules.max_message_bytes}",
        )


def stamp_log_append_time(batch: Buffer, now_ms: int) -> Buffer:
    """Set `now_ms` as the timestamp of every record, by the header alone; in place unless
    read-only."""
    view = memoryview(batch)
    if view.readonly:
        view = memoryview(bytearray(view))
    view[ATTRIBUTES_LOW_BYTE_POSITION] |= LOG_APPEND_TIME_BIT
    _INT64.pack_into(view, MAX_TIMESTAMP_POSITION, now_ms)
    checked = view[CHECKED_FROM : batch_size_at(view)]
    _UINT32.pack_into(view, CRC_POSITION, crc32c(checked))
    return view
