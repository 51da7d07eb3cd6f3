"""Walking over the records of a batch for their keys, without making an object of any record.

This loop and those of the offset map are where compaction spends its time: a record costs a few
microseconds here, whatever its size, since its value is stepped over.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.records.errors import InvalidBatch

_VARINT_BYTES_MAX = 10
_NULL = 1
"""The length -1 in its zigzag form."""


class WalkedRecords(NamedTuple):
    """Parallel lists, one entry a record."""

    ends: list[int]
    """Where each record ends; it begins where the one before it ended."""
    timestamps: list[int]
    """Differences to the base timestamp, in zigzag form."""
    offset_deltas: list[int]
    keys: list[bytes | None]
    tombstones: list[bool]


def walk(payload: bytes, count: int) -> WalkedRecords:
    """The `count` records that fill `payload`."""
    walked = WalkedRecords([], [], [], [], [])
    ends, timestamps, offset_deltas, keys, tombstones = walked
    limit = len(payload)
    end = 0
    try:
        for _ in range(count):
            position = end
            raw = payload[position]
            position += 1
            if raw > 0x7F:
                following = payload[position]
                if following < 0x80:  # Most records: 64 to 8,191 bytes.
                    raw = raw & 0x7F | following << 7
                    position += 1
                else:
                    raw, position = _long_varint(payload, position - 1)
            end = position + (raw >> 1)
            if end > limit or raw & 1:
                raise _broken(f"a record at byte {position} claims to end at byte {end} of {limit}")
            position += 1  # attributes: none are defined
            raw = payload[position]
            position += 1
            if raw > 0x7F:
                raw, position = _long_varint(payload, position - 1)
            timestamps.append(raw)
            raw = payload[position]
            position += 1
            if raw > 0x7F:
                raw, position = _long_varint(payload, position - 1)
            offset_deltas.append(raw >> 1)
            raw = payload[position]
            position += 1
            if raw > 0x7F:
                raw, position = _long_varint(payload, position - 1)
            if raw & 1:
                keys.append(None)
            else:
                start = position
                position += raw >> 1
                keys.append(payload[start:position])
            if position >= end:
                raise _broken(f"a key runs to byte {position} over the end of its record at {end}")
            tombstones.append(payload[position] == _NULL)
            ends.append(end)
    except IndexError:
        raise _broken(f"{count} records run over the end of their {limit} bytes") from None
    if end != limit:
        raise _broken(f"{limit - end} bytes are left after the last of {count} records")
    return walked


def moved_timestamp(payload: bytes, start: int, end: int, difference: int) -> bytes:
    """The record at `start`, its timestamp expressed as `difference` to another base."""
    _, position = _varint(payload, start)
    attributes = payload[position : position + 1]
    _, position = _varint(payload, position + 1)
    body = b"".join((attributes, to_varint(difference), payload[position:end]))
    return to_varint(len(body)) + body


def from_zigzag(raw: int) -> int:
    return raw >> 1 ^ -(raw & 1)


def to_varint(value: int) -> bytes:
    raw = value << 1 if value >= 0 else ~(value << 1)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _varint(payload: bytes, position: int) -> tuple[int, int]:
    raw = payload[position]
    return (raw, position + 1) if raw < 0x80 else _long_varint(payload, position)


def _long_varint(payload: bytes, position: int) -> tuple[int, int]:
    raw = payload[position] & 0x7F
    byte = payload[position + 1]
    if byte < 0x80:
        return raw | byte << 7, position + 2
    raw |= (byte & 0x7F) << 7
    for index in range(2, _VARINT_BYTES_MAX):
        byte = payload[position + index]
        raw |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return raw, position + index + 1
    raise _broken(f"a varint is longer than {_VARINT_BYTES_MAX} bytes")


def _broken(reason: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, f"the records of a batch are damaged: {reason}")
