"""The compiled counterpart of `ottla.records.pure.index_search`."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    WIDTH = 8


cdef inline int64_t first_number(const uint8_t* entry) noexcept nogil:
    return <int32_t>(
        (<uint32_t>entry[0] << 24)
        | (<uint32_t>entry[1] << 16)
        | (<uint32_t>entry[2] << 8)
        | <uint32_t>entry[3]
    )


def floor_slot(entries, Py_ssize_t count, int64_t target):
    """Return the last of `count` entries of an offset index whose relative offset is not above
    `target`; -1 if there is none."""
    cdef Py_buffer buffer
    cdef const uint8_t* start
    cdef Py_ssize_t low = -1
    cdef Py_ssize_t high = count - 1
    cdef Py_ssize_t middle
    PyObject_GetBuffer(entries, &buffer, PyBUF_SIMPLE)
    try:
        if count < 0 or count > buffer.len // WIDTH:
            raise ValueError(f"{count} entries in {buffer.len} bytes")
        start = <const uint8_t*>buffer.buf
        while low < high:
            middle = (low + high + 1) >> 1
            if first_number(start + middle * WIDTH) <= target:
                low = middle
            else:
                high = middle - 1
    finally:
        PyBuffer_Release(&buffer)
    return low
