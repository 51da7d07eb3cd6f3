"""A growing column of bytes or null: offsets, data and validity in Arrow's layout."""

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy

from ottla.records.native.growing cimport Growing, put_bytes, release, reserve
from ottla.records.native.raw_record cimport Span

cdef extern from *:
    str PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)
    const char* PyUnicode_AsUTF8AndSize(str, Py_ssize_t*)


cdef struct Column:
    Growing offsets
    Growing data
    Growing validity
    Py_ssize_t rows
    Py_ssize_t nulls


cdef inline bint begin(Column* column) noexcept nogil:
    """Start a column that is all zeros."""
    cdef int32_t zero = 0
    return put_bytes(&column.offsets, &zero, 4)


cdef inline bint put_row(Column* column, const Span* span) noexcept nogil:
    """Add a row; False if there is no memory, and then nothing has changed."""
    cdef Py_ssize_t size = max(span.size, <Py_ssize_t>0)
    cdef int32_t end
    if not (
        reserve(&column.data, size) and reserve(&column.offsets, 4) and reserve(&column.validity, 1)
    ):
        return False
    if not column.rows & 7:
        column.validity.data[column.validity.size] = 0
        column.validity.size += 1
    if span.size < 0:
        column.nulls += 1
    else:
        column.validity.data[column.rows >> 3] |= <uint8_t>(1 << (column.rows & 7))
        put_bytes(&column.data, span.data, size)
    end = <int32_t>column.data.size
    put_bytes(&column.offsets, &end, 4)
    column.rows += 1
    return True


cdef inline bint put_name(Column* column, const Span* name) noexcept nogil:
    """Add a row of valid text: what is not UTF-8 is replaced, as in decoding a record."""
    cdef Py_ssize_t index
    for index in range(name.size):
        if name.data[index] > 0x7F:
            with gil:
                return _put_decoded(column, name)
    return put_row(column, name)


cdef inline bint _put_decoded(Column* column, const Span* name) noexcept:
    cdef Span clean
    cdef str text
    try:
        text = PyUnicode_DecodeUTF8(<const char*>name.data, name.size, "replace")
        clean.data = <const uint8_t*>PyUnicode_AsUTF8AndSize(text, &clean.size)
    except MemoryError:
        return False
    return put_row(column, &clean)


cdef inline void truncate(Column* column, Py_ssize_t rows) noexcept nogil:
    """Truncate to this many rows."""
    cdef Py_ssize_t row
    cdef int32_t end
    for row in range(rows, column.rows):
        if not column.validity.data[row >> 3] >> (row & 7) & 1:
            column.nulls -= 1
    memcpy(&end, column.offsets.data + 4 * rows, 4)
    column.rows = rows
    column.offsets.size = 4 * (rows + 1)
    column.data.size = end
    column.validity.size = (rows + 7) >> 3
    if rows & 7:
        column.validity.data[rows >> 3] &= <uint8_t>((1 << (rows & 7)) - 1)


cdef inline void free_column(Column* column) noexcept nogil:
    release(&column.offsets)
    release(&column.data)
    release(&column.validity)
    column.rows = column.nulls = 0
