"""Writes records into the payload of a batch, one at a time or from columns."""

import struct
from collections.abc import Iterable
from typing import Any

from ottla.buffers import Buffer
from ottla.records.column_buffers import ColumnBuffers
from ottla.records.header import HEADER_SIZE, LOG_OVERHEAD
from ottla.records.payload import (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    NO_HEADERS,
    NULL,
    encode_headers,
    varint,
)
from ottla.records.pure.row_source import RowSource, check_range

_INT32 = struct.Struct("<i")
HeaderPairs = Iterable[tuple[str, Buffer | None]]

PAYLOAD_BYTES_MAX = INT32_MAX - (HEADER_SIZE - LOG_OVERHEAD)
"""The most that the length field of a batch can express."""
NO_TIMESTAMP = -1
_OVERHEAD_MAX = 5 + 1 + 10 + 5
"""Length, attributes, timestamp delta and offset delta at their longest."""
_LENGTH_MAX = 5
_UTF8_BYTES_MAX = 4


class PayloadWriter:
    """The growing records of one batch, uncompressed. Offsets count up from 0."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.count = 0
        self.base_timestamp = NO_TIMESTAMP
        """The timestamp of the first record."""
        self.max_timestamp = NO_TIMESTAMP

    @property
    def size(self) -> int:
        """The bytes of the records so far."""
        return len(self._data)

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeaderPairs = (),
    ) -> int:
        """Add a record; return the new size. A refused record leaves the writer unchanged."""
        key_bytes = None if key is None else as_bytes(key, "key")
        value_bytes = None if value is None else as_bytes(value, "value")
        pairs = tuple((header_name(name), _header_value(content)) for name, content in headers)
        encoded_headers = encode_headers(pairs) if pairs else NO_HEADERS
        encoded = self._encode(timestamp, key_bytes, value_bytes, encoded_headers)
        self._add(timestamp, encoded)
        return len(self._data)

    def extend_rows(
        self,
        columns: ColumnBuffers,
        rows: Any,
        start: int,
        stop: int,
        size_limit: int,
        timestamp: int | None = None,
    ) -> int:
        """Append rows `rows[start:stop]` of the columns (int32 each; None: all rows, in order)
        until the next would exceed `size_limit`; return how many were appended.

        An empty writer takes one record of any size. `timestamp` is used if the columns have no
        timestamps.
        """
        source = RowSource(columns, timestamp)
        numbers = check_range(rows, start, stop, source.count)
        for index in range(start, stop):
            row = index if numbers is None else _INT32.unpack_from(numbers, 4 * index)[0]
            time, key, value, headers = source.row(row)
            encoded = self._encode(time, key, value, headers)
            if self.count and len(self._data) + len(encoded) > size_limit:
                return index - start
            self._add(time, encoded)
        return stop - start

    def payload(self) -> bytes:
        """Return a copy of the records so far."""
        return bytes(self._data)

    def clear(self) -> None:
        """Remove all records."""
        self._data.clear()
        self.count = 0
        self.base_timestamp = self.max_timestamp = NO_TIMESTAMP

    def _encode(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: bytes
    ) -> bytes:
        delta = timestamp - self.base_timestamp if self.count else 0
        if not (INT64_MIN <= timestamp <= INT64_MAX and INT64_MIN <= delta <= INT64_MAX):
            raise too_far(timestamp, self.base_timestamp)
        body = b"".join(
            (
                b"\x00",
                varint(delta),
                varint(self.count),
                NULL if key is None else varint(len(key)) + key,
                NULL if value is None else varint(len(value)) + value,
                headers,
            )
        )
        if len(self._data) + len(body) + _LENGTH_MAX > PAYLOAD_BYTES_MAX:
            raise no_room(len(body))
        return varint(len(body)) + body

    def _add(self, timestamp: int, encoded: bytes) -> None:
        self._data += encoded
        if not self.count:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1


def too_far(timestamp: int, base_timestamp: int) -> OverflowError:
    return OverflowError(f"timestamp {timestamp} is too far from {base_timestamp}, the first one")


def no_room(byte_count: int) -> OverflowError:
    return OverflowError(
        f"a record of {byte_count} bytes does not fit into the batch: its size is an int32"
    )


def record_size_max(key: Buffer | None, value: Buffer | None, headers: HeaderPairs = ()) -> int:
    """Return an upper bound of what `append` would add for this record."""
    size = _OVERHEAD_MAX + 3 * _LENGTH_MAX
    size += 0 if key is None else size_of(key)
    size += 0 if value is None else size_of(value)
    for name, content in headers:
        size += 2 * _LENGTH_MAX + _UTF8_BYTES_MAX * len(name)
        size += 0 if content is None else size_of(content)
    return size


def as_bytes(data: Any, role: str) -> bytes:
    """Convert a bytes-like object to bytes."""
    if isinstance(data, bytes):
        return data
    try:
        return memoryview(data).tobytes()
    except TypeError:
        kind = type(data).__name__
        raise TypeError(f"the {role} of a record must be bytes or None, not {kind}") from None


def header_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a header must be str, not {type(name).__name__}")
    return name


def _header_value(value: Any) -> bytes | None:
    return None if value is None else as_bytes(value, "header value")


def size_of(data: Any) -> int:
    """Return the size of a bytes-like object."""
    return len(data) if isinstance(data, bytes) else memoryview(data).nbytes
