"""The rows of a column whose buffers `ottla.records.pure.column_access` has checked."""

from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ottla.records.native.raw_record cimport Span

cdef extern from "Python.h":
    Py_buffer* PyMemoryView_GET_BUFFER(object)


cdef struct Rows:
    const uint8_t* offsets  # NULL: every row is null
    const uint8_t* validity  # NULL: no row is null
    const uint8_t* data
    Py_ssize_t size


cdef inline const uint8_t* start_of(view) noexcept:
    """Return the start of a memoryview, which must be kept as long as the pointer is used."""
    if view is None:
        return NULL
    return <const uint8_t*>PyMemoryView_GET_BUFFER(view).buf


cdef inline int32_t int32_at(const uint8_t* numbers, Py_ssize_t index) noexcept nogil:
    cdef int32_t value
    memcpy(&value, numbers + 4 * index, 4)
    return value


cdef inline int64_t int64_at(const uint8_t* numbers, Py_ssize_t index) noexcept nogil:
    cdef int64_t value
    memcpy(&value, numbers + 8 * index, 8)
    return value


cdef inline int rows_of(Rows* rows, column) except -1:
    """Take the rows of a `BytesColumn`, which must be kept as long as they are used."""
    rows.offsets = start_of(column.offsets)
    rows.validity = start_of(column.validity)
    rows.data = start_of(column.data)
    rows.size = PyMemoryView_GET_BUFFER(column.data).len
    return 0


cdef inline bint read_row(const Rows* rows, Py_ssize_t row, Span* span) noexcept nogil:
    """Read a row; False if its offsets are not within the data."""
    cdef int32_t first, behind
    span.data = NULL
    span.size = -1
    if rows.offsets == NULL:
        return True
    if rows.validity != NULL and not rows.validity[row >> 3] >> (row & 7) & 1:
        return True
    first = int32_at(rows.offsets, row)
    behind = int32_at(rows.offsets, row + 1)
    if not 0 <= first <= behind <= rows.size:
        return False
    span.data = rows.data + first
    span.size = behind - first
    return True
