"""The compiled counterpart of `ottla.records.pure.writer`."""

from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ottla.records.native.column_rows cimport Rows, int32_at, int64_at, read_row, rows_of, start_of
from ottla.records.native.growing cimport Growing, put_bytes, release, reserve
from ottla.records.native.raw_record cimport Span
from ottla.records.native.varint cimport put_varint, varint_size, zigzag

from ottla.records.pure.row_source import RowSource, check_range
from ottla.records.pure.writer import (
    PAYLOAD_BYTES_MAX as _PAYLOAD_BYTES_MAX,
    as_bytes,
    header_name,
    no_room,
    size_of,
    too_far,
)

cdef extern from *:
    bint __builtin_sub_overflow(int64_t, int64_t, int64_t*) nogil

cdef enum:
    LENGTH_MAX = 5
    FIXED_MAX = 5 + 1 + 10 + 5  # length, attributes, timestamp delta, offset delta
    UTF8_BYTES_MAX = 4

cdef int64_t PAYLOAD_BYTES_MAX = _PAYLOAD_BYTES_MAX
cdef const uint8_t* NO_HEADERS = b"\0"


cdef struct Parts:
    # Of one record; `headers` with their count in front.
    int64_t timestamp
    Span key
    Span value
    Span headers


cdef class PayloadWriter:
    """The growing records of one batch, uncompressed. Offsets count up from 0."""

    cdef Growing memory
    cdef Growing scratch
    cdef readonly int64_t count
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp

    def __cinit__(self):
        self.base_timestamp = self.max_timestamp = -1

    def __dealloc__(self):
        release(&self.memory)
        release(&self.scratch)

    @property
    def size(self):
        """The bytes of the records so far."""
        return self.memory.size

    def append(self, int64_t timestamp, key, value, headers=()):
        """Add a record; return the new size. A refused record leaves the writer unchanged."""
        cdef Parts parts
        cdef bytes encoded_headers
        # Code that may run the application's code comes first. After it these are immutable bytes.
        if key is not None and not PyBytes_CheckExact(key):
            key = as_bytes(key, "key")
        if value is not None and not PyBytes_CheckExact(value):
            value = as_bytes(value, "value")
        parts.headers.data = NO_HEADERS
        parts.headers.size = 1
        if headers is not EMPTY:
            encoded_headers = encode_headers(headers)
            span_of(encoded_headers, &parts.headers)
        parts.timestamp = timestamp
        span_of(key, &parts.key)
        span_of(value, &parts.value)
        self.add(&parts, PAYLOAD_BYTES_MAX)
        return self.memory.size

    def extend_rows(
        self,
        columns,
        rows,
        Py_ssize_t start,
        Py_ssize_t stop,
        int64_t size_limit,
        timestamp=None,
    ):
        """Append rows `rows[start:stop]` of the columns (int32 each; None: all rows, in order)
        until the next would exceed `size_limit`; return how many were appended.

        An empty writer takes one record of any size. `timestamp` is used if the columns have no
        timestamps.
        """
        cdef RowReader reader = RowReader(columns, timestamp)
        cdef const uint8_t* numbers
        cdef Parts parts
        cdef Py_ssize_t index, row
        numbers_view = check_range(rows, start, stop, reader.count)
        numbers = start_of(numbers_view)
        for index in range(start, stop):
            row = index if numbers == NULL else int32_at(numbers, index)
            reader.read(row, &parts, &self.scratch)
            if not self.add(&parts, size_limit):
                return index - start
        return stop - start

    def payload(self):
        """Return a copy of the records so far."""
        return PyBytes_FromStringAndSize(<const char*>self.memory.data, self.memory.size)

    def clear(self):
        """Remove all records."""
        self.memory.size = 0
        self.count = 0
        self.base_timestamp = self.max_timestamp = -1

    cdef bint add(self, const Parts* parts, int64_t size_limit) except -1:
        """Add a record; False if that would exceed the limit and it is not the first record."""
        cdef int64_t delta = 0
        cdef Py_ssize_t body, total
        cdef uint8_t* at
        if self.count and __builtin_sub_overflow(parts.timestamp, self.base_timestamp, &delta):
            raise too_far(parts.timestamp, self.base_timestamp)
        body = (
            1
            + varint_size(zigzag(delta))
            + varint_size(zigzag(self.count))
            + span_size(&parts.key)
            + span_size(&parts.value)
            + parts.headers.size
        )
        if self.memory.size + body + LENGTH_MAX > PAYLOAD_BYTES_MAX:
            raise no_room(body)
        total = body + varint_size(zigzag(body))
        if self.count and self.memory.size + total > size_limit:
            return False
        if not reserve(&self.memory, total):
            raise MemoryError
        at = put_varint(self.memory.data + self.memory.size, zigzag(body))
        at[0] = 0  # attributes
        at = put_varint(at + 1, zigzag(delta))
        at = put_varint(at, zigzag(self.count))
        at = put_span(at, &parts.key)
        at = put_span(at, &parts.value)
        memcpy(at, parts.headers.data, parts.headers.size)
        self.memory.size += total
        self.note(parts.timestamp)
        return True

    cdef void note(self, int64_t timestamp) noexcept:
        if not self.count:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1


cdef class RowReader:
    """Columns, read row by row. The pure `RowSource` has checked the buffers and keeps them."""

    cdef object source
    cdef Rows keys, values, header_keys, header_values
    cdef const uint8_t* times
    cdef const uint8_t* header_offsets
    cdef int64_t timestamp
    cdef Py_ssize_t count, header_count

    def __cinit__(self, columns, timestamp):
        self.source = source = RowSource(columns, timestamp)
        self.count = source.count
        rows_of(&self.keys, source.keys)
        rows_of(&self.values, source.values)
        if source.times is None:
            self.timestamp = timestamp
        else:
            self.times = start_of(source.times.values)
        if source.headers is not None:
            self.header_offsets = start_of(source.headers.offsets)
            self.header_count = source.headers.count
            rows_of(&self.header_keys, source.headers.names)
            rows_of(&self.header_values, source.headers.values)

    cdef int read(self, Py_ssize_t row, Parts* parts, Growing* scratch) except -1:
        """Read a row; its headers are put into `scratch`."""
        if not 0 <= row < self.count:
            self.refuse(row)
        parts.timestamp = self.timestamp if self.times == NULL else int64_at(self.times, row)
        if not (read_row(&self.keys, row, &parts.key) and read_row(&self.values, row, &parts.value)):
            self.refuse(row)
        parts.headers.data = NO_HEADERS
        parts.headers.size = 1
        if self.header_offsets != NULL:
            scratch.size = 0
            self.read_headers(row, scratch)
            parts.headers.data = scratch.data
            parts.headers.size = scratch.size
        return 0

    cdef int read_headers(self, Py_ssize_t row, Growing* scratch) except -1:
        cdef int32_t first = int32_at(self.header_offsets, row)
        cdef int32_t behind = int32_at(self.header_offsets, row + 1)
        cdef int32_t index
        cdef Span name, value
        if not 0 <= first <= behind <= self.header_count:
            self.refuse(row)
        put_number(scratch, behind - first)
        for index in range(first, behind):
            if not (
                read_row(&self.header_keys, index, &name)
                and name.size >= 0
                and read_row(&self.header_values, index, &value)
            ):
                self.refuse(row)
            put_part(scratch, &name)
            put_part(scratch, &value)
        return 0

    cdef int refuse(self, Py_ssize_t row) except -1:
        self.source.row(row)  # raises the error
        raise ValueError(f"row {row} of the columns is damaged")


def record_size_max(key, value, headers=()):
    """Return an upper bound of what `append` would add for this record."""
    cdef Py_ssize_t size = FIXED_MAX + 3 * LENGTH_MAX
    if key is not None:
        size += PyBytes_GET_SIZE(key) if PyBytes_CheckExact(key) else <Py_ssize_t>size_of(key)
    if value is not None:
        size += PyBytes_GET_SIZE(value) if PyBytes_CheckExact(value) else <Py_ssize_t>size_of(value)
    if headers is not EMPTY:
        for name, content in headers:
            size += 2 * LENGTH_MAX + UTF8_BYTES_MAX * <Py_ssize_t>len(name)
            size += 0 if content is None else <Py_ssize_t>size_of(content)
    return size


cdef object EMPTY = ()


cdef bytes encode_headers(headers):
    """Return the count of headers, and the headers."""
    cdef Growing made
    cdef Span name, value
    made.data = NULL
    made.size = made.capacity = 0
    pairs = tuple(headers)
    try:
        put_number(&made, len(pairs))
        for text, content in pairs:
            name.data = <const uint8_t*>PyUnicode_AsUTF8AndSize(header_name(text), &name.size)
            if content is not None and not PyBytes_CheckExact(content):
                content = as_bytes(content, "header value")
            span_of(content, &value)
            put_part(&made, &name)
            put_part(&made, &value)
        return PyBytes_FromStringAndSize(<const char*>made.data, made.size)
    finally:
        release(&made)


cdef int put_number(Growing* memory, int64_t value) except -1:
    cdef uint8_t* start
    if not reserve(memory, LENGTH_MAX + 5):
        raise MemoryError
    start = memory.data + memory.size
    memory.size += put_varint(start, zigzag(value)) - start
    return 0


cdef int put_part(Growing* memory, const Span* span) except -1:
    put_number(memory, span.size)
    if span.size > 0 and not put_bytes(memory, span.data, span.size):
        raise MemoryError
    return 0


cdef inline void span_of(data, Span* span) noexcept:
    """`data` is bytes or None."""
    if data is None:
        span.data = NULL
        span.size = -1
    else:
        span.data = <const uint8_t*>PyBytes_AS_STRING(data)
        span.size = PyBytes_GET_SIZE(data)


cdef inline Py_ssize_t span_size(const Span* span) noexcept nogil:
    return varint_size(zigzag(span.size)) + (span.size if span.size > 0 else 0)


cdef inline uint8_t* put_span(uint8_t* at, const Span* span) noexcept nogil:
    at = put_varint(at, zigzag(span.size))
    if span.size > 0:
        memcpy(at, span.data, <size_t>span.size)
        at += span.size
    return at
