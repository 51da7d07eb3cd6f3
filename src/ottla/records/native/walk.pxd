"""Iterates over the records of a payload."""

from cpython.buffer cimport Py_buffer
from libc.stdint cimport int64_t, uint8_t

from ottla.records.native.raw_record cimport RawRecord

cdef enum Step:
    AT_RECORD
    AT_END
    AT_DAMAGE


cdef class Walk:
    cdef Py_buffer view
    cdef object payload, append_time
    cdef const uint8_t* start
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef int64_t count
    cdef int64_t index  # the number of records read
    cdef int64_t base_offset, base_timestamp
    cdef bint has_append_time
    # Of the record read last.
    cdef int64_t offset, timestamp

    cdef Step step(self, RawRecord* record) noexcept nogil
    cdef bint next(self, RawRecord* record) except -1
    cdef object damage(self)
