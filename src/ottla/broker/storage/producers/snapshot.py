"""`%020d.snapshot`: the producers known at an offset, so that recovery need not read the whole log.

Version int16 (1), CRC-32C uint32 of all that follows, number of entries int32, entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from ottla.broker.storage.errors import CorruptFile
from ottla.records.crc import crc32c

VERSION = 1
_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class SnapshotEntry(NamedTuple):
    """The state of a producer. Only the last of its batches is kept; -1 stands for "none"."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(path: str, data: bytes) -> list[SnapshotEntry]:
    """Decode a snapshot. `path` is only used in errors."""
    if len(data) < _PREFIX.size + _COUNT.size:
        raise CorruptFile(path, f"{len(data)} bytes are too few for a producer snapshot")
    version, crc = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(path, f"snapshot version {version} is unknown: expected {VERSION}")
    body = memoryview(data)[_PREFIX.size :]
    if crc32c(body) != crc:
        raise CorruptFile(path, "checksum does not match")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or _COUNT.size + count * _ENTRY.size != len(body):
        raise CorruptFile(path, f"{len(body)} bytes cannot hold {count} producers")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]
