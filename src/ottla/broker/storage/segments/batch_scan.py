"""Scans the batches of a segment file, block by block, header by header.

One read serves all headers in a block, and batches are not decompressed: the cost is per batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TypeAlias

from ottla.records.crc import crc32c
from ottla.records.header import CHECKED_FROM, HEADER_SIZE, LOG_OVERHEAD, MAGIC, unpack_header
from ottla.records.header_fields import BASE_OFFSET, BATCH_LENGTH, CRC, LAST_OFFSET_DELTA
from ottla.records.header_fields import MAGIC as MAGIC_FIELD
from ottla.runtime.disk import File

HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The thirteen fields of a `BatchHeader`, in its order, before they are validated."""

LOOKUP_BLOCK_BYTES = 16 * 1024
"""Enough for one read to cover the stretch between two index entries at the usual interval."""
SCAN_BLOCK_BYTES = 4 * 1024 * 1024
_BATCH_LENGTH_MIN = HEADER_SIZE - LOG_OVERHEAD
_LEGACY_MESSAGE_BYTES_MIN = 14


class BrokenBatch(Exception):
    """There is no whole batch at `position`."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"no valid batch at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class LegacyBatch(BrokenBatch):
    """There is a valid message in a format older than batches."""


def scan(
    file: File, position: int, end: int, *, block_bytes: int = SCAN_BLOCK_BYTES
) -> Iterator[tuple[int, HeaderFields]]:
    """Yield (position, header) of each batch from `position` to exactly `end`; raises
    `BrokenBatch`."""
    block, block_start = b"", position
    while position < end:
        at = position - block_start
        if at + HEADER_SIZE > len(block):
            block, block_start, at = _read(file, position, end, block_bytes), position, 0
        header = unpack_header(block, at)
        following = position + LOG_OVERHEAD + header[BATCH_LENGTH]
        if (
            header[BATCH_LENGTH] < _BATCH_LENGTH_MIN
            or header[MAGIC_FIELD] != MAGIC
            or following > end
        ):
            raise _broken(file, position, end, header)
        yield position, header
        position = following


def verify(
    file: File, end: int, *, block_bytes: int = SCAN_BLOCK_BYTES
) -> Iterator[tuple[int, HeaderFields, memoryview]]:
    """Like `scan` from 0, but verifies each checksum and also yields the bytes of each batch."""
    position = block_start = 0
    block = memoryview(b"")
    while position < end:
        at = position - block_start
        if at + HEADER_SIZE > len(block):
            block, block_start = memoryview(_read(file, position, end, block_bytes)), position
            at = 0
        header = unpack_header(block, at)
        size = LOG_OVERHEAD + header[BATCH_LENGTH]
        if (
            header[BATCH_LENGTH] < _BATCH_LENGTH_MIN
            or header[MAGIC_FIELD] != MAGIC
            or position + size > end
        ):
            raise _broken(file, position, end, header)
        if at + size > len(block):
            block = memoryview(_read(file, position, end, max(block_bytes, size)))
            block_start, at = position, 0
        batch = block[at : at + size]
        if crc32c(batch[CHECKED_FROM:]) != header[CRC]:
            raise BrokenBatch(position, f"checksum does not match {header[CRC]:#010x}")
        yield position, header, batch
        position += size


def find(file: File, position: int, end: int, offset: int) -> tuple[int, HeaderFields] | None:
    """Return the first batch from `position` on whose last offset is at least `offset`."""
    for at, header in scan(file, position, end, block_bytes=LOOKUP_BLOCK_BYTES):
        if header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] >= offset:
            return at, header
    return None


def _read(file: File, position: int, end: int, count: int) -> bytes:
    data = file.read_at(position, min(count, end - position))
    if len(data) < HEADER_SIZE:
        raise BrokenBatch(position, f"{len(data)} bytes are left, a header needs {HEADER_SIZE}")
    return data


def _broken(file: File, position: int, end: int, header: HeaderFields) -> BrokenBatch:
    length, magic = header[BATCH_LENGTH], header[MAGIC_FIELD]
    if magic in (0, 1) and _is_legacy_message(file, position, end, length):
        return LegacyBatch(position, f"a message of the old format {magic}")
    if length < _BATCH_LENGTH_MIN:
        return BrokenBatch(position, f"batch length {length} is less than {_BATCH_LENGTH_MIN}")
    if magic != MAGIC:
        return BrokenBatch(position, f"format version {magic} is not {MAGIC}")
    left = end - position
    return BrokenBatch(position, f"a batch of {LOG_OVERHEAD + length} bytes has only {left} left")


def _is_legacy_message(file: File, position: int, end: int, length: int) -> bool:
    """True if the CRC-32 of an old message matches: then it was written on purpose."""
    if length < _LEGACY_MESSAGE_BYTES_MIN or position + LOG_OVERHEAD + length > end:
        return False
    message = file.read_at(position + LOG_OVERHEAD, length)
    return zlib.crc32(message[4:]) == int.from_bytes(message[:4], "big")
