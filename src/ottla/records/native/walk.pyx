"""Iterates over the records of a payload."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t

from ottla.records.native.raw_record cimport RawRecord, add_delta, fits, read_record

from ottla.records.payload import explain_damage


cdef class Walk:
    """The `count` records that fill `payload`, whose memory is pinned as long as this exists;
    `append_time` is the timestamp of all of them, if it is not None.
    """

    def __cinit__(
        self, payload, int64_t count, int64_t base_offset, int64_t base_timestamp, append_time
    ):
        PyObject_GetBuffer(payload, &self.view, PyBUF_SIMPLE)
        self.payload = payload
        self.start = self.at = <const uint8_t*>self.view.buf
        self.end = self.at + self.view.len
        self.count = count
        self.base_offset = base_offset
        self.base_timestamp = base_timestamp
        self.append_time = append_time
        self.has_append_time = append_time is not None
        if self.has_append_time:
            self.timestamp = append_time
        if not fits(count, self.view.len, base_offset):
            raise self.damage()

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    cdef Step step(self, RawRecord* record) noexcept nogil:
        """Move to the next record, if there is a valid one."""
        cdef const uint8_t* behind
        if self.index == self.count:
            return AT_END if self.at == self.end else AT_DAMAGE
        behind = read_record(self.at, self.end, record)
        if behind == NULL:
            return AT_DAMAGE
        if not self.has_append_time and not add_delta(
            self.base_timestamp, record.timestamp_delta, &self.timestamp
        ):
            return AT_DAMAGE
        self.offset = self.base_offset + record.offset_delta
        self.at = behind
        self.index += 1
        return AT_RECORD

    cdef bint next(self, RawRecord* record) except -1:
        """Like `step`, but raises damage; False after the last record."""
        cdef Step step = self.step(record)
        if step == AT_DAMAGE:
            raise self.damage()
        return step == AT_RECORD

    cdef object damage(self):
        """Return the error of the next record."""
        return explain_damage(
            memoryview(self.payload),
            self.count,
            self.base_offset,
            self.base_timestamp,
            self.append_time,
            self.index,
            self.at - self.start,
        )
