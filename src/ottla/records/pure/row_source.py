"""Columns -> rows, each as a batch needs it."""

import struct
from typing import Any

from ottla.records.column_buffers import ColumnBuffers
from ottla.records.payload import NO_HEADERS, NULL, varint
from ottla.records.pure.column_access import BytesColumn, IntColumn, checked, span

_INT32 = struct.Struct("<i")


class RowSource:
    """Columns, read row by row."""

    def __init__(self, columns: ColumnBuffers, timestamp: int | None) -> None:
        c = columns
        self.count = c.count
        self._timestamp = timestamp
        self.times = (
            None if c.timestamps is None else IntColumn("timestamps", c.count, c.timestamps)
        )
        if self.times is None and timestamp is None:
            raise ValueError("the columns have no timestamps: give the one of all rows")
        self.keys = BytesColumn("key", c.count, c.key_offsets, c.key_data, c.key_validity)
        self.values = BytesColumn("value", c.count, c.value_offsets, c.value_data, c.value_validity)
        self.headers = None if c.header_offsets is None else HeaderSource(columns)

    def row(self, row: int) -> tuple[int, bytes | None, bytes | None, bytes]:
        """Return timestamp, key, value and encoded headers."""
        if not 0 <= row < self.count:
            raise ValueError(f"there is no row {row} among {self.count}")
        timestamp = self._timestamp if self.times is None else self.times.at(row)
        assert timestamp is not None
        headers = NO_HEADERS if self.headers is None else self.headers.row(row)
        return timestamp, self.keys.at(row), self.values.at(row), headers


class HeaderSource:
    """The headers of columns, encoded row by row."""

    def __init__(self, columns: ColumnBuffers) -> None:
        c = columns
        self.offsets = checked(c.header_offsets, "header offsets", c.count + 1, 4)
        self.count = _INT32.unpack_from(self.offsets, 4 * c.count)[0]
        self.names = BytesColumn(
            "header key", self.count, c.header_key_offsets, c.header_key_data, None
        )
        self.values = BytesColumn(
            "header value",
            self.count,
            c.header_value_offsets,
            c.header_value_data,
            c.header_value_validity,
        )

    def row(self, row: int) -> bytes:
        first, behind = span(self.offsets, row, self.count, "header")
        parts = [varint(behind - first)]
        for index in range(first, behind):
            name, value = self.names.at(index), self.values.at(index)
            if name is None:
                raise ValueError(f"a header of row {row} has no name: there are no header keys")
            parts += (varint(len(name)), name)
            parts += (NULL,) if value is None else (varint(len(value)), value)
        return b"".join(parts)


def check_range(rows: Any, start: int, stop: int, count: int) -> memoryview | None:
    """Return the row numbers as bytes, None for all rows in order; `stop` must be within them."""
    if not 0 <= start <= stop or (rows is None and stop > count):
        raise ValueError(f"rows {start} to {stop} are not among {count}")
    return None if rows is None else checked(rows, "row numbers", stop, 4)
