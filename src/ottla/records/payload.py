"""Writes and reads the records inside a batch, decompressed: the reference for all faster code.

The fast loops are in `engine`. If compiled code finds damage, this module is run to describe it.

    record  = size varint, attributes int8, timestamp delta varlong, offset delta varint,
              key length varint (-1: null), key, value length varint (-1: null), value,
              header count varint, headers
    header  = key length varint, key (UTF-8), value length varint (-1: null), value

Varints are zigzag: the sign is the lowest bit.
"""

from collections.abc import Iterable, Iterator
from typing import cast

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.records.errors import InvalidBatch
from ottla.records.record import Headers, Record

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, two null lengths and the count of headers, one byte each."""
_VARINT_BYTES_MAX = 10
_LAST_VARINT_BYTE_MAX = 1
_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))
NULL = _ONE_BYTE[1]
NO_HEADERS = _ONE_BYTE[0]
INT32_MAX = (1 << 31) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def encode_records(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    """Return the records as in an uncompressed batch with this base offset and timestamp."""
    payload = bytearray()
    for offset, timestamp, key, value, headers in records:
        body = b"".join(
            (
                b"\x00",
                varint(timestamp - base_timestamp),
                varint(offset - base_offset),
                NULL if key is None else varint(len(key)) + key,
                NULL if value is None else varint(len(value)),
                value or b"",
                encode_headers(headers) if headers else NO_HEADERS,
            )
        )
        payload += varint(len(body))
        payload += body
    return bytes(payload)


def decode_records(
    payload: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None = None,
) -> Iterator[Record]:
    """Yield the `count` records that fill `payload`; `append_time` replaces all their timestamps.

    They are yielded one at a time: a small compressed batch can hold millions of records of 7
    bytes, which would take gigabytes as objects.
    """
    end = len(payload)
    if not 0 <= count * RECORD_BYTES_MIN <= end:
        raise damaged(f"{count} records cannot lie in {end} bytes")
    if not INT64_MIN <= base_offset <= INT64_MAX - INT32_MAX:
        raise damaged(f"the base offset {base_offset} leaves no room for the offsets after it")
    return _decode(payload, count, base_offset, base_timestamp, append_time)


def explain_damage(
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    index: int,
    position: int,
) -> InvalidBatch:
    """Return the error of record number `index`, which begins at `position`, or of one after it."""
    payload = cast("bytes", payload)  # a view suffices, because the decoded records are discarded
    try:
        decode_records(payload, count, base_offset, base_timestamp)
        for _ in _decode(payload, count, base_offset, base_timestamp, append_time, index, position):
            pass
    except InvalidBatch as error:
        return error
    return damaged(f"record {index} of {count} at byte {position} cannot be read")


def _decode(
    payload: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    index: int = 0,
    position: int = 0,
) -> Iterator[Record]:
    # One loop without calls for one-byte varints: a call for each would double the time. A slice
    # past the end is short without an error, so the check of the end position at the bottom catches
    # every wrong length.
    new_record = tuple.__new__
    try:
        for _ in range(index, count):
            raw = payload[position]
            if raw < 0x80:
                position += 1
            else:
                raw, position = read_varint(payload, position)
            end = position + (raw >> 1 ^ -(raw & 1))

            position += 1  # attributes: none are defined
            raw = payload[position]
            if raw < 0x80:
                position += 1
            else:
                raw, position = read_varint(payload, position)
            timestamp = append_time
            if timestamp is None:
                timestamp = base_timestamp + (raw >> 1 ^ -(raw & 1))

            raw = payload[position]
            if raw < 0x80:
                position += 1
            else:
                raw, position = read_varint(payload, position)
            offset_delta = raw >> 1 ^ -(raw & 1)

            raw = payload[position]
            if raw < 0x80:
                position += 1
            else:
                raw, position = read_varint(payload, position)
            key = None
            if not raw & 1:
                start = position
                position += raw >> 1
                key = payload[start:position]

            raw = payload[position]
            if raw < 0x80:
                position += 1
            else:
                raw, position = read_varint(payload, position)
            value = None
            if not raw & 1:
                start = position
                position += raw >> 1
                value = payload[start:position]

            headers: Headers = ()
            if payload[position] == 0:
                position += 1
            else:
                headers, position = _decode_headers(payload, position)
            if position != end:
                raise damaged(f"a record that claims to end at byte {end} ends at byte {position}")
            if not (0 <= offset_delta <= INT32_MAX and INT64_MIN <= timestamp <= INT64_MAX):
                raise damaged(f"a record has offset delta {offset_delta} and timestamp {timestamp}")
            fields = (base_offset + offset_delta, timestamp, key, value, headers)
            yield new_record(Record, fields)
    except IndexError:
        raise damaged(f"{count} records run over the end of their {len(payload)} bytes") from None
    if position != len(payload):
        left = len(payload) - position
        raise damaged(f"{left} bytes are left after the last of {count} records")


def _decode_headers(payload: bytes, position: int) -> tuple[Headers, int]:
    count, position = _signed(payload, position)
    if not 0 <= count <= len(payload) - position:
        raise damaged(f"{count} headers cannot lie in {len(payload) - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = _signed(payload, position)
        if length < 0:
            raise damaged(f"a header key has length {length}")
        # Kafka's clients replace what is not UTF-8; an invalid header must not make its record
        # unreadable.
        key = str(payload[position : position + length], "utf-8", "replace")
        length, position = _signed(payload, position + length)
        if length < 0:
            headers.append((key, None))
        else:
            headers.append((key, payload[position : position + length]))
            position += length
    if position > len(payload):
        raise IndexError  # like every other length past the end
    return tuple(headers), position


def encode_headers(headers: Headers) -> bytes:
    """Return the count of headers, and the headers."""
    parts = [varint(len(headers))]
    for key, value in headers:
        name = key.encode()
        parts += (varint(len(name)), name)
        parts += (NULL,) if value is None else (varint(len(value)), value)
    return b"".join(parts)


def varint(value: int) -> bytes:
    """Encode a number of at most 64 bits, zigzag."""
    raw = value << 1 if value >= 0 else ~(value << 1)
    if raw < 0x80:
        return _ONE_BYTE[raw]
    if raw < 0x4000:
        return bytes((raw & 0x7F | 0x80, raw >> 7))
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _signed(payload: bytes, position: int) -> tuple[int, int]:
    raw, position = read_varint(payload, position)
    return raw >> 1 ^ -(raw & 1), position


def read_varint(payload: bytes, position: int) -> tuple[int, int]:
    """Return the varint at `position` before the zigzag is undone, and the position after it."""
    first = payload[position]
    if first < 0x80:
        return first, position + 1
    second = payload[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
    raw = first & 0x7F | (second & 0x7F) << 7
    for index in range(2, _VARINT_BYTES_MAX):
        byte = payload[position + index]
        if byte > _LAST_VARINT_BYTE_MAX and index == _VARINT_BYTES_MAX - 1:
            break
        raw |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return raw, position + index + 1
    raise damaged("a varint takes more than 64 bits")


def damaged(message: str) -> InvalidBatch:
    """Return the error for records that violate the format."""
    return InvalidBatch(ErrorCode.INVALID_RECORD, f"the records of a batch are damaged: {message}")
