"""Records -> the payload of a batch, one at a time or from columns."""

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
from ottla.records.pure.column_access import BytesColumn, IntColumn, checked, span

HeaderPairs = Iterable[tuple[str, Buffer | None]]

PAYLOAD_BYTES_MAX = INT32_MAX - (HEADER_SIZE - LOG_OVERHEAD)
"""What the length field of a batch can tell."""
NO_TIMESTAMP = -1
_OVERHEAD_MAX = 5 + 1 + 10 + 5
"""Length, attributes, timestamp delta and offset delta at their longest."""
_LENGTH_MAX = 5
_UTF8_BYTES_MAX = 4


class PayloadWriter:
    """The records of one batch, uncompressed, growing. Offsets count up from 0."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.count = 0
        self.base_timestamp = NO_TIMESTAMP
        """Of the first record."""
        self.max_timestamp = NO_TIMESTAMP

    @property
    def size(self) -> int:
        """Bytes of the records so far."""
        return len(self._data)

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeaderPairs = (),
    ) -> int:
        """Add a record; the new size. A record that is refused leaves the writer as it was."""
        key_bytes = None if key is None else as_bytes(key, "key")
        value_bytes = None if value is None else as_bytes(value, "value")
        pairs = tuple((name, _header_value(value)) for name, value in headers)
        encoded = self._encode(
            timestamp, key_bytes, value_bytes, encode_headers(pairs) if pairs else NO_HEADERS
        )
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
        until the next would make this larger than `size_limit`; how many were appended.

        An empty writer takes one record of any size. `timestamp` stands in where the columns have
        no timestamps.
        """
        source = _RowSource(columns, timestamp)
        numbers = range(columns.count) if rows is None else _RowNumbers(rows, stop, columns.count)
        if not 0 <= start <= stop or (rows is None and stop > columns.count):
            raise ValueError(f"rows {start} to {stop} are not among {columns.count}")
        for index in range(start, stop):
            time, key, value, headers = source.row(numbers[index])
            encoded = self._encode(time, key, value, headers)
            if self.count and len(self._data) + len(encoded) > size_limit:
                return index - start
            self._add(time, encoded)
        return stop - start

    def payload(self) -> bytes:
        """A copy of the records so far."""
        return bytes(self._data)

    def clear(self) -> None:
        """Begin anew."""
        self._data.clear()
        self.count = 0
        self.base_timestamp = self.max_timestamp = NO_TIMESTAMP

    def _encode(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: bytes
    ) -> bytes:
        delta = timestamp - self.base_timestamp if self.count else 0
        if not (INT64_MIN <= timestamp <= INT64_MAX and INT64_MIN <= delta <= INT64_MAX):
            raise OverflowError(f"timestamp {timestamp} is too far from {self.base_timestamp}")
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
            raise OverflowError(
                f"{len(body)} bytes more do not fit into a batch: its size is an int32"
            )
        return varint(len(body)) + body

    def _add(self, timestamp: int, encoded: bytes) -> None:
        self._data += encoded
        if not self.count:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1


class _RowNumbers:
    """The row numbers that came from elsewhere, each checked when it is looked up."""

    def __init__(self, rows: Any, stop: int, count: int) -> None:
        self._rows = IntColumn("row numbers", stop, rows, 4)
        self._count = count

    def __getitem__(self, index: int) -> int:
        row = self._rows.at(index)
        if not 0 <= row < self._count:
            raise ValueError(f"there is no row {row} among {self._count}")
        return row


class _RowSource:
    """Columns, read row by row."""

    def __init__(self, columns: ColumnBuffers, timestamp: int | None) -> None:
        count = columns.count
        self._timestamp = timestamp
        self._times = None
        if columns.timestamps is not None:
            self._times = IntColumn("timestamps", count, columns.timestamps, 8)
        elif timestamp is None:
            raise ValueError("the columns have no timestamps: give the one of all rows")
        c = columns
        self._keys = BytesColumn("key", count, c.key_offsets, c.key_data, c.key_validity)
        self._values = BytesColumn("value", count, c.value_offsets, c.value_data, c.value_validity)
        self._headers = None if c.header_offsets is None else _HeaderSource(columns)

    def row(self, row: int) -> tuple[int, bytes | None, bytes | None, bytes]:
        timestamp = self._times.at(row) if self._times else self._timestamp
        assert timestamp is not None
        headers = self._headers.row(row) if self._headers else NO_HEADERS
        return timestamp, self._keys.at(row), self._values.at(row), headers


class _HeaderSource:
    """The headers of columns, encoded row by row."""

    def __init__(self, columns: ColumnBuffers) -> None:
        c = columns
        self._offsets = checked(c.header_offsets, "header offsets", c.count + 1, 4)
        total = IntColumn("header offsets", c.count + 1, c.header_offsets, 4).at(c.count)
        self._total = total
        self._names = BytesColumn(
            "header key", total, c.header_key_offsets, c.header_key_data, None
        )
        self._values = BytesColumn(
            "header value",
            total,
            c.header_value_offsets,
            c.header_value_data,
            c.header_value_validity,
        )

    def row(self, row: int) -> bytes:
        first, behind = span(self._offsets, row, self._total, "header")
        parts = [varint(behind - first)]
        for index in range(first, behind):
            name, value = self._names.at(index), self._values.at(index)
            if name is None:
                raise ValueError(f"a header of row {row} has no name: there are no header keys")
            parts += (varint(len(name)), name)
            parts += (NULL,) if value is None else (varint(len(value)), value)
        return b"".join(parts)


def record_size_max(key: Buffer | None, value: Buffer | None, headers: HeaderPairs = ()) -> int:
    """At least as much as `append` would add for this record."""
    size = _OVERHEAD_MAX + 3 * _LENGTH_MAX
    size += 0 if key is None else _size(key)
    size += 0 if value is None else _size(value)
    for name, content in headers:
        size += 2 * _LENGTH_MAX + _UTF8_BYTES_MAX * len(name)
        size += 0 if content is None else _size(content)
    return size


def as_bytes(data: Any, role: str) -> bytes:
    """What may stand for bytes, as bytes."""
    if isinstance(data, bytes):
        return data
    try:
        return memoryview(data).tobytes()
    except TypeError:
        kind = type(data).__name__
        raise TypeError(f"the {role} of a record must be bytes or None, not {kind}") from None


def _header_value(value: Any) -> bytes | None:
    return None if value is None else as_bytes(value, "header value")


def _size(data: Any) -> int:
    return len(data) if isinstance(data, bytes) else memoryview(data).nbytes
