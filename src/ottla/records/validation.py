"""What a producer may send: the verdict on a batch before it is appended.

The common batch is judged in a few microseconds: `check_produced` looks at its header and checksum,
`must_open` at its records as far as that can be done at once. Whatever is not plainly right goes
through `_judge`, which makes every check by itself and in Kafka's order, so that a client gets the
code Kafka would give; or through `open_produced`, which looks at the records one by one.
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
RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, two null lengths and the count of headers, one byte each."""
_LEGACY_BATCH_SIZE_MIN = LOG_OVERHEAD + 14
_REFUSED_BITS = CONTROL_BIT | LOG_APPEND_TIME_BIT
_LZ4, _ZSTD = int(Codec.LZ4), int(Codec.ZSTD)


def must_open(header: BatchHeader, batch: Buffer, rules: ProduceRules, now_ms: int) -> bool:
    """Whether the verdict on a batch that `check_produced` let pass, or the batch as the topic
    wants it, needs its records one by one: then `open_produced` is to be called, in a thread.

    Compiled code surveys uncompressed records on the spot, which takes about as long as the
    checksum; where one of them is not whole, this raises `InvalidBatch`.
    """
    if needs_rewrite(header, rules):
        return True
    if NATIVE and not header[5] & CODEC_MASK:
        payload = memoryview(batch)[HEADER_SIZE : LOG_OVERHEAD + header[1]]
        found = survey_records(payload, header[12], header[7])
        return not (is_as_claimed(header, found, rules) and obeys(found, rules, now_ms))
    if rules.reads_records:
        return True
    return header[8] - now_ms > rules.timestamp_after_max_ms and not rules.log_append_time


def check_produced(records: memoryview, rules: ProduceRules, produce_version: int) -> BatchHeader:
    """The header of the one batch in `records`, checked as far as it goes without opening it.

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
    """Exactly one batch, of a format and codec that this version of the request may carry."""
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
    """Whether a whole batch of any format begins here; raises if what begins cannot be one."""
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
