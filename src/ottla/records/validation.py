"""Validates what producers send, before a batch is appended.

A usual batch takes a few microseconds: `check_produced` checks its header and checksum, `must_open`
its records as far as that can be done at once. Any other batch goes through `_judge`, which makes
each check separately and in Kafka's order, so that a client gets the code that Kafka would give; or
through `open_produced`, which checks the records one by one.
"""

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.records.codec import Codec
from ottla.records.crc import crc32c
from ottla.records.engine import NATIVE, survey_records
from ottla.records.errors import InvalidBatch
from ottla.records.header import (
    ATTRIBUTES_LOW_BYTE_POSITION,
    CHECKED_FROM,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_BIT,
    BatchHeader,
    batch_size_at,
    unpack_header,
)
from ottla.records.header_fields import (
    ATTRIBUTES,
    BASE_TIMESTAMP,
    BATCH_LENGTH,
    MAX_TIMESTAMP,
    RECORD_COUNT,
)
from ottla.records.payload import RECORD_BYTES_MIN
from ottla.records.record_checks import obeys
from ottla.records.rewriting import (
    is_as_claimed,
    needs_rewrite,
    open_produced,
    stamp_log_append_time,
)
from ottla.records.rules import ProduceRules

__all__ = [
    "InvalidBatch",
    "ProduceRules",
    "check_produced",
    "must_open",
    "needs_rewrite",
    "open_produced",
    "stamp_log_append_time",
]

ZSTD_PRODUCE_VERSION_MIN = 7
SURVEYED_BYTES_MAX = 4 * 1024 * 1024
"""The most that is surveyed at once: more would block the loop for too long."""
_LEGACY_BATCH_SIZE_MIN = LOG_OVERHEAD + 14
_REFUSED_BITS = CONTROL_BIT | LOG_APPEND_TIME_BIT
_LZ4, _ZSTD = int(Codec.LZ4), int(Codec.ZSTD)


def must_open(header: BatchHeader, batch: Buffer, rules: ProduceRules, now_ms: int) -> bool:
    """True if the records of a batch that passed `check_produced` must be checked or rewritten one
    by one: then call `open_produced`, in a thread.

    Compiled code surveys uncompressed records at once, which takes about as long as the checksum,
    unless there are very many; if one of them is incomplete, this raises `InvalidBatch`.
    """
    if needs_rewrite(header, rules) or header[BATCH_LENGTH] > SURVEYED_BYTES_MAX:
        return True
    if NATIVE and not header[ATTRIBUTES] & CODEC_MASK:
        view = batch if type(batch) is memoryview else memoryview(batch)
        payload = view[HEADER_SIZE : LOG_OVERHEAD + header[BATCH_LENGTH]]
        found = survey_records(payload, header[RECORD_COUNT], header[BASE_TIMESTAMP])
        return not (is_as_claimed(header, found, rules) and obeys(found, rules, now_ms))
    if rules.reads_records:
        return True
    return (
        header[MAX_TIMESTAMP] - now_ms > rules.timestamp_after_max_ms and not rules.log_append_time
    )


def check_produced(records: memoryview, rules: ProduceRules, produce_version: int) -> BatchHeader:
    """Return the header of the single batch in `records`, checked as far as possible without
    opening it.

    Bytes after the batch that form no further batch are ignored, so store `records[:header.size]`.
    """
    size = len(records)
    if size < HEADER_SIZE:
        _check_shape(records, produce_version)
        raise _too_short(size)
    fields = unpack_header(records)
    header: BatchHeader = tuple.__new__(BatchHeader, fields)
    (
        base_offset,
        length,
        _,
        magic,
        crc,
        bits,
        delta,
        _,
        _,
        producer_id,
        _,
        sequence,
        count,
    ) = fields
    if not (
        magic == MAGIC
        and length + LOG_OVERHEAD == size <= rules.max_message_bytes
        and base_offset == 0
        and delta + 1 == count > 0
        and (bits & CODEC_MASK or count * RECORD_BYTES_MIN <= size - HEADER_SIZE)
        and bits & CODEC_MASK <= (_ZSTD if produce_version >= ZSTD_PRODUCE_VERSION_MIN else _LZ4)
        and not bits & _REFUSED_BITS
        and (sequence >= 0 if producer_id >= 0 else not bits & TRANSACTIONAL_BIT)
        and crc32c(records[CHECKED_FROM:]) == crc
    ):
        _judge(header, records, rules, produce_version)
    return header


def _judge(
    header: BatchHeader, records: memoryview, rules: ProduceRules, produce_version: int
) -> None:
    _check_shape(records, produce_version)
    if header.base_offset != 0:
        raise _invalid(f"the base offset of a produced batch must be 0, not {header.base_offset}")
    if header.size > rules.max_message_bytes:
        raise InvalidBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.size} bytes; max.message.bytes is {rules.max_message_bytes}",
        )
    if header.size < HEADER_SIZE:
        raise _too_short(header.size)
    computed = crc32c(records[CHECKED_FROM : header.size])
    if computed != header.crc:
        raise _corrupt(f"the checksum is {computed:#010x}, the header says {header.crc:#010x}")
    header.codec  # noqa: B018 - reading it refuses the codecs that do not exist
    _check_count(header)
    _check_attributes(header)


def _check_shape(records: memoryview, produce_version: int) -> None:
    """Raise unless there is exactly one batch, of a format and codec that this request version
    allows."""
    if not _holds_batch(records):
        raise _invalid(
            f"a produce request needs a whole batch for each partition, but the {len(records)} "
            "bytes of this one hold none"
        )
    if (magic := records[MAGIC_POSITION]) != MAGIC:
        raise _invalid(f"batches of format version {magic} are not accepted, only {MAGIC}")
    codec = records[ATTRIBUTES_LOW_BYTE_POSITION] & CODEC_MASK
    if codec == Codec.ZSTD and produce_version < ZSTD_PRODUCE_VERSION_MIN:
        raise InvalidBatch(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs produce version {ZSTD_PRODUCE_VERSION_MIN}, this is {produce_version}",
        )
    if _holds_batch(records[batch_size_at(records) :]):
        raise _invalid("a produce request carries one batch for each partition, found more")


def _holds_batch(view: memoryview) -> bool:
    """True if a whole batch of any format begins here; raises if the bytes cannot be a batch."""
    if len(view) < LOG_OVERHEAD:
        return False
    size = batch_size_at(view)
    if size < _LEGACY_BATCH_SIZE_MIN:
        raise _too_short(size)
    if len(view) <= MAGIC_POSITION:
        return False
    if (magic := view[MAGIC_POSITION]) > MAGIC:
        raise _corrupt(f"its format version (magic) is {magic}, expected {MAGIC}")
    return size <= len(view)


def _check_count(header: BatchHeader) -> None:
    if header.record_count <= 0:
        raise _invalid(f"the record count is {header.record_count}")
    if header.last_offset_delta + 1 != header.record_count:
        raise _invalid(
            f"the last offset delta is {header.last_offset_delta}, which does not go with "
            f"{header.record_count} records"
        )
    room = header.size - HEADER_SIZE
    if not header.attributes & CODEC_MASK and header.record_count * RECORD_BYTES_MIN > room:
        raise _invalid(f"{header.record_count} records do not fit into {room} bytes")


def _check_attributes(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("clients may not write control records")
    if header.has_producer_id and header.base_sequence < 0:
        raise _invalid(
            f"producer {header.producer_id} sent the sequence number {header.base_sequence}"
        )
    if header.is_transactional and not header.has_producer_id:
        raise _invalid("a transactional batch needs a producer id")
    if header.is_log_append_time:
        raise InvalidBatch(
            ErrorCode.INVALID_TIMESTAMP,
            "a producer may not set the timestamp type LogAppendTime: that is the broker's to do",
        )


def _invalid(message: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, message)


def _corrupt(message: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"the batch is damaged: {message}")


def _too_short(size: int) -> InvalidBatch:
    return _corrupt(f"it claims {size} bytes, and its header alone takes {HEADER_SIZE}")
