"""Memory that grows, without the interpreter's lock."""

from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

cdef enum:
    _GROWN_BYTES_MIN = 64


cdef struct Growing:
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t capacity


cdef inline bint reserve(Growing* memory, Py_ssize_t more) noexcept nogil:
    """Make room for `more` bytes; False if there is no memory."""
    if more <= memory.capacity - memory.size:
        return True
    return _grow(memory, more)


cdef inline bint _grow(Growing* memory, Py_ssize_t more) noexcept nogil:
    # Grow by half, so that appending stays cheap however often it is done.
    cdef Py_ssize_t wanted = memory.size + more
    cdef Py_ssize_t capacity = memory.capacity + memory.capacity // 2
    cdef void* grown
    capacity = max(capacity, wanted, <Py_ssize_t>_GROWN_BYTES_MIN)
    grown = PyMem_RawRealloc(memory.data, <size_t>capacity)
    if grown == NULL:
        return False
    memory.data = <uint8_t*>grown
    memory.capacity = capacity
    return True


cdef inline bint put_bytes(Growing* memory, const void* data, Py_ssize_t size) noexcept nogil:
    if not reserve(memory, size):
        return False
    if size:  # without a size there may be no memory yet
        memcpy(memory.data + memory.size, data, <size_t>size)
        memory.size += size
    return True


cdef inline void release(Growing* memory) noexcept nogil:
    PyMem_RawFree(memory.data)
    memory.data = NULL
    memory.size = memory.capacity = 0
