"""The fixed 61 bytes at the front of a batch.

The leader sets base offset and leader epoch, so the checksum does not cover them.

    base offset            int64     the offset of the first record
    batch length           int32     bytes after this field
    partition leader epoch int32     the epoch of the leader that appended it
    magic                  int8      2
    crc                    uint32    CRC-32C of everything after this field
    attributes             int16     bits 0-2 codec, 3 log append time, 4 transactional,
                                     5 control, 6 delete horizon
    last offset delta      int32     last offset - base offset
    base timestamp         int64     records hold deltas to it; if bit 6 is set, it is
                                     the delete horizon
    max timestamp          int64     of all records; the append time if bit 3 is set
    producer id            int64     -1: not idempotent
    producer epoch         int16
    base sequence          int32     of the first record
    record count           int32
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.records.codec import Codec
from ottla.records.errors import InvalidBatch
from ottla.records.header_fields import ATTRIBUTES

HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""Bytes up to and including the length field: the size of a batch is its length plus this."""
LEADER_EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
CHECKED_FROM = 21
"""The position from which on the checksum covers the bytes."""
ATTRIBUTES_LOW_BYTE_POSITION = 22
MAX_TIMESTAMP_POSITION = 35
PRODUCER_POSITION = 43
"""The position of producer id, epoch and base sequence, which follow each other."""
MAGIC = 2
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_SEQUENCE_MODULUS = 1 << 31
_CODECS = {int(codec): codec for codec in Codec}
_FIELDS = struct.Struct(">qiibIhiqqqhii")
_CHECKED_FIELDS = struct.Struct(">hiqqqhii")
_PREFIX = struct.Struct(">qii")
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_SIZE_AT_8 = struct.Struct(">8xi")

unpack_header = _FIELDS.unpack_from
"""Return the fields of `BatchHeader` as a plain tuple, for code in which microseconds count."""


class BatchHeader(NamedTuple):
    """The header of a batch, read once and passed along instead of the bytes."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch, header included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        number = self.attributes & CODEC_MASK
        if (codec := _CODECS.get(number)) is None:
            raise InvalidBatch(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"compression codec {number} is unknown: expected 0 to {max(_CODECS)}",
            )
        return codec

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones in this batch may be removed; set by the first compaction that saw
        them."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The last sequence. Sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_MODULUS


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`, not validated."""
    try:
        return tuple.__new__(BatchHeader, unpack_header(buffer, position))
    except struct.error:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch needs a header of {HEADER_SIZE} bytes, "
            f"found {max(0, len(buffer) - position)}",
        ) from None


def pack_header(header: BatchHeader) -> bytes:
    """Return the 61 bytes of a header, with the checksum it contains."""
    return _FIELDS.pack(*header)


def pack_checked_fields(header: BatchHeader) -> bytes:
    """Return the part of the header that the checksum covers (from the attributes on)."""
    return _CHECKED_FIELDS.pack(*header[ATTRIBUTES:])


def batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield every whole batch in `buffer` with its bytes, unchecked; a partial one at the end is
    left out."""
    view = memoryview(buffer)
    position, end = 0, len(view)
    while end - position >= HEADER_SIZE:
        header = tuple.__new__(BatchHeader, unpack_header(view, position))
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise InvalidBatch(
                ErrorCode.CORRUPT_MESSAGE,
                f"batch length {header.batch_length} at byte {position} is less than the "
                f"{HEADER_SIZE - LOG_OVERHEAD} bytes a header needs",
            )
        following = position + header.size
        if following > end:
            return
        yield header, view[position:following]
        position = following


def set_base_offset(buffer: bytearray | memoryview, base_offset: int, position: int = 0) -> None:
    """Patch the base offset of the batch at `position`; the checksum does not cover it."""
    _INT64.pack_into(buffer, position, base_offset)


def set_leader_epoch(buffer: bytearray | memoryview, leader_epoch: int, position: int = 0) -> None:
    """Patch the leader epoch of the batch at `position`; the checksum does not cover it."""
    _INT32.pack_into(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


def set_place(
    buffer: bytearray | memoryview,
    batch_length: int,
    base_offset: int,
    leader_epoch: int,
    position: int = 0,
) -> None:
    """Patch base offset and leader epoch at once, as a leader does to every batch it appends."""
    _PREFIX.pack_into(buffer, position, base_offset, batch_length, leader_epoch)


def place_prefix(batch_length: int, base_offset: int, leader_epoch: int) -> bytes:
    """Return the first 16 bytes of an appended batch, to precede `batch[16:]` if that is
    read-only."""
    return _PREFIX.pack(base_offset, batch_length, leader_epoch)


def batch_size_at(buffer: Buffer, position: int = 0) -> int:
    """Return the size of the batch at `position` by its length field alone (12 bytes must be
    there)."""
    length: int = _SIZE_AT_8.unpack_from(buffer, position)[0]
    return LOG_OVERHEAD + length
