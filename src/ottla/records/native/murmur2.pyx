"""The compiled counterpart of `ottla.records.pure.murmur2`."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer, Py_buffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy

from ottla.records.native.column_rows cimport Rows, read_row, rows_of
from ottla.records.native.raw_record cimport Span

from ottla.records.pure.column_access import BytesColumn
from ottla.records.pure.murmur2 import check_partition_count

cdef enum:
    SEED = 0x9747B28C
    MULTIPLIER = 0x5BD1E995
    POSITIVE = 0x7FFFFFFF


def murmur2(data):
    """Return the 32-bit Murmur2 hash with the Java client's seed, as an unsigned number."""
    cdef Py_buffer view
    if PyBytes_CheckExact(data):
        return hash_of(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return hash_of(<const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


def partition_rows(key_offsets, key_data, key_validity, Py_ssize_t count, int32_t partition_count):
    """Return the partition of every row of a key column, an int32 each; -1 if the key is null."""
    cdef Rows rows
    cdef Span key
    cdef Py_ssize_t row
    cdef int32_t* partitions
    check_partition_count(partition_count)
    column = BytesColumn("key", count, key_offsets, key_data, key_validity)
    rows_of(&rows, column)
    made = PyBytes_FromStringAndSize(NULL, 4 * count)
    partitions = <int32_t*>PyBytes_AS_STRING(made)
    for row in range(count):
        if not read_row(&rows, row, &key):
            column.at(row)  # raises the error
        if key.size < 0:
            partitions[row] = -1
        else:
            partitions[row] = <int32_t>(
                (hash_of(key.data, key.size) & POSITIVE) % <uint32_t>partition_count
            )
    return made


cdef uint32_t hash_of(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t multiplier = MULTIPLIER
    cdef uint32_t h = <uint32_t>SEED ^ <uint32_t>size
    cdef uint32_t k
    while size >= 4:
        memcpy(&k, data, 4)
        k *= multiplier
        k ^= k >> 24
        h = h * multiplier ^ k * multiplier
        data += 4
        size -= 4
    if size:
        if size == 3:
            h ^= <uint32_t>data[2] << 16
        if size >= 2:
            h ^= <uint32_t>data[1] << 8
        h ^= data[0]
        h *= multiplier
    h ^= h >> 13
    h *= multiplier
    return h ^ h >> 15
