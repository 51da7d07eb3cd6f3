"""The payloads of many batches -> columns."""

import sys
from array import array

from ottla.buffers import Buffer
from ottla.records.column_buffers import COLUMN_BYTES_MAX, ColumnBuffers
from ottla.records.payload import decode_records
from ottla.records.record import Record


class RecordColumns:
    """Collects records of any number of batches as columns, until they are taken."""

    def __init__(self, headers: bool = False, column_bytes_max: int = COLUMN_BYTES_MAX) -> None:
        self._with_headers = headers
        self._column_bytes_max = column_bytes_max
        self.next_offset = -1
        """The offset after the last row added; -1 before the first."""
        self.complete = True
        """True if the last `add` reached the end of its payload."""
        self._begin()

    @property
    def count(self) -> int:
        """The number of rows so far."""
        return len(self._offsets)

    @property
    def bytes(self) -> int:
        """The bytes of keys, values and headers so far."""
        return sum(len(column.data) for column in self._bytes_columns)

    def add(
        self,
        payload: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
        from_offset: int,
        limit: int,
    ) -> int:
        """Add at most `limit` of the records from `from_offset` on; return how many were added.

        Stops before a column would exceed what int32 offsets can address. To continue with the same
        payload, take the columns and add it again from `next_offset`. A damaged payload adds
        nothing.
        """
        records = decode_records(bytes(payload), count, base_offset, base_timestamp, append_time)
        if limit <= 0:
            self.complete = count == 0
            return 0
        rows: list[Record] = []
        sizes = [len(column.data) for column in self._bytes_columns]
        complete = True
        for index, record in enumerate(records, 1):
            if record.offset < from_offset:
                continue
            sizes = [size + more for size, more in zip(sizes, _sizes(record), strict=False)]
            if max(sizes) > self._column_bytes_max:
                complete = False
                break
            rows.append(record)
            if len(rows) == limit and index < count:
                complete = False
                break
        self.complete = complete
        self._append(rows)
        return len(rows)

    def take(self) -> ColumnBuffers:
        """Return the columns so far; the next row begins new ones."""
        count = self.count
        keys, values = self._keys, self._values
        taken = ColumnBuffers(
            count,
            _little_endian(self._offsets),
            _little_endian(self._timestamps),
            *(_little_endian(keys.offsets), bytes(keys.data), keys.validity()),
            *(_little_endian(values.offsets), bytes(values.data), values.validity()),
            *(self._taken_headers() if self._with_headers else ()),
        )
        self._begin()
        return taken

    def _begin(self) -> None:
        self._offsets, self._timestamps = array("q"), array("q")
        self._keys, self._values = _BytesColumn(), _BytesColumn()
        self._header_offsets = array("i", [0])
        self._header_keys, self._header_values = _BytesColumn(), _BytesColumn()
        self._bytes_columns = [self._keys, self._values]
        if self._with_headers:
            self._bytes_columns += [self._header_keys, self._header_values]

    def _append(self, rows: list[Record]) -> None:
        for offset, timestamp, key, value, headers in rows:
            self._offsets.append(offset)
            self._timestamps.append(timestamp)
            self._keys.append(key)
            self._values.append(value)
            if self._with_headers:
                for name, content in headers:
                    self._header_keys.append(name.encode())
                    self._header_values.append(content)
                self._header_offsets.append(len(self._header_keys.present))
            self.next_offset = offset + 1

    def _taken_headers(self) -> tuple[object, ...]:
        names, values = self._header_keys, self._header_values
        return (
            _little_endian(self._header_offsets),
            *(_little_endian(names.offsets), bytes(names.data)),
            *(_little_endian(values.offsets), bytes(values.data), values.validity()),
        )


class _BytesColumn:
    """A growing column of bytes or None."""

    def __init__(self) -> None:
        self.offsets = array("i", [0])
        self.data = bytearray()
        self.present = bytearray()

    def append(self, value: bytes | None) -> None:
        self.present.append(value is not None)
        self.data += value or b""
        self.offsets.append(len(self.data))

    def validity(self) -> bytes | None:
        """Return the bitmap; None if no row is null."""
        present = self.present
        if all(present):
            return None
        bits = bytearray((len(present) + 7) // 8)
        for row, is_present in enumerate(present):
            bits[row >> 3] |= is_present << (row & 7)
        return bytes(bits)


def _sizes(record: Record) -> tuple[int, int, int, int]:
    """Return the sizes of key, value, header names and header values."""
    names = sum(len(name.encode()) for name, _ in record.headers)
    contents = sum(len(content or b"") for _, content in record.headers)
    return len(record.key or b""), len(record.value or b""), names, contents


def _little_endian(numbers: "array[int]") -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
