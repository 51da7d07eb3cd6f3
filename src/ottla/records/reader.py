"""Batch -> records."""

from collections.abc import Iterator

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.records.codec import Codec
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from ottla.records.crc import crc32c
from ottla.records.errors import InvalidBatch
from ottla.records.header import (
    CHECKED_FROM,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    read_header,
)
from ottla.records.payload import decode_records
from ottla.records.record import Record

__all__ = ["check_crc", "iter_records", "payload_of", "read_payload", "read_records"]


def read_records(batch: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """All records of the one batch in `batch`. Its checksum is not looked at: see `check_crc`."""
    return list(iter_records(batch, max_bytes))


def iter_records(batch: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The same, one at a time: for brokers, which must not hold all records of a hostile batch."""
    header = read_header(batch)
    return read_payload(header, payload_of(header, batch, max_bytes))


def payload_of(
    header: BatchHeader, batch: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """The bytes of a batch's records, decompressed."""
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
    # A batch without records is what compaction leaves of a producer's last one: there is nothing
    # to decompress.
    if codec is Codec.NONE or not header.record_count:
        return bytes(data)
    return decompress(codec, data, max_bytes)


def read_payload(header: BatchHeader, payload: bytes) -> Iterator[Record]:
    """The records in a payload that `payload_of` gave; damage shows when it is reached."""
    return decode_records(
        payload,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.is_log_append_time else None,
    )


def check_crc(header: BatchHeader, batch: Buffer) -> None:
    """Raise if the bytes of a whole batch do not have the checksum in its header."""
    computed = crc32c(memoryview(batch)[CHECKED_FROM : header.size])
    if computed != header.crc:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch at offset {header.base_offset} is damaged: its checksum is {computed:#010x}, "
            f"its header says {header.crc:#010x}",
        )
