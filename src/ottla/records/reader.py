"""Batch -> records."""

from collections.abc import Iterator

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.records.codec import Codec
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from ottla.records.crc import crc32c
from ottla.records.errors import InvalidBatch, OpensTooLarge
from ottla.records.header import (
    CHECKED_FROM,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    read_header,
)
from ottla.records.payload import RECORD_BYTES_MIN, decode_records
from ottla.records.record import Record

__all__ = ["check_crc", "iter_records", "payload_of", "read_payload", "read_records"]


def read_records(batch: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """Return all records of the single batch in `batch`. Its checksum is not checked: see
    `check_crc`."""
    return list(iter_records(batch, max_bytes))


def iter_records(batch: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Like `read_records`, one at a time: for brokers, which must not hold all records of a
    malicious batch."""
    header = read_header(batch)
    return read_payload(header, payload_of(header, batch, max_bytes))


def payload_of(
    header: BatchHeader, batch: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytes | memoryview:
    """Return the decompressed records of a batch; raises `OpensTooLarge` if they take more than
    `max_bytes`, already by the header if possible."""
    if header.magic != MAGIC:
        raise InvalidBatch(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"a batch has format version {header.magic}; only version {MAGIC} can be read",
        )
    if not HEADER_SIZE - LOG_OVERHEAD <= header.batch_length <= len(batch) - LOG_OVERHEAD:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch claims {header.size} bytes, of which {len(batch)} are there",
        )
    data = memoryview(batch)[HEADER_SIZE : header.size]
    codec = header.codec
    # Compaction leaves a producer's last batch without records: there is nothing to decompress.
    if codec is Codec.NONE or not header.record_count:
        return data
    if (needed := header.record_count * RECORD_BYTES_MIN) > max_bytes:
        raise OpensTooLarge(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{header.record_count} records take at least {needed} bytes uncompressed, more than "
            f"{max_bytes}: send smaller batches",
        )
    return decompress(codec, data, max_bytes)


def read_payload(header: BatchHeader, payload: Buffer) -> Iterator[Record]:
    """Yield the records in a payload that `payload_of` returned; damage is raised when it is
    reached."""
    return decode_records(
        bytes(payload),
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.is_log_append_time else None,
    )


def check_crc(header: BatchHeader, batch: Buffer) -> None:
    """Raise if the checksum of a whole batch differs from that in its header."""
    computed = crc32c(memoryview(batch)[CHECKED_FROM : header.size])
    if computed != header.crc:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch at offset {header.base_offset} is damaged: its checksum is {computed:#010x}, "
            f"its header says {header.crc:#010x}",
        )
