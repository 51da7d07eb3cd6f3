"""The compiled twin of `ottla.records.pure.record_copy`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t
from libc.string cimport memcpy

from ottla.records.native.growing cimport Growing, put_bytes, release, reserve
from ottla.records.native.raw_record cimport RawRecord
from ottla.records.native.varint cimport put_varint, varint_size, zigzag
from ottla.records.native.walk cimport Walk

from ottla.records.pure.record_copy import check_mask

cdef extern from *:
    bint __builtin_sub_overflow(int64_t, int64_t, int64_t*) nogil

cdef enum:
    MOVED_BYTES_MAX = 2 * 10  # what a moved record may be longer: both its size and its time


def copy_records(
    payload,
    int64_t count,
    bytes mask not None,
    int64_t base_timestamp,
    append_time,
    new_base_timestamp=None,
):
    """The records whose byte in `mask` is not 0, and the highest timestamp among them (-1 for
    none).

    `append_time` is the time of them all, whatever they say; with `new_base_timestamp` they say it
    from then on. A timestamp further from that than 64 bits reach comes as near as they do.
    """
    cdef Walk walk
    cdef Growing made
    check_mask(mask, count)
    walk = Walk(payload, count, 0, base_timestamp, append_time)
    made.data = NULL
    made.size = made.capacity = 0
    try:
        highest = copied(walk, mask, new_base_timestamp, &made)
        return PyBytes_FromStringAndSize(<const char*>made.data, made.size), highest
    finally:
        release(&made)


cdef object copied(Walk walk, bytes mask, new_base_timestamp, Growing* made):
    cdef RawRecord record
    cdef const char* marks = PyBytes_AS_STRING(mask)
    cdef bint moves = new_base_timestamp is not None
    cdef int64_t base = new_base_timestamp if moves else 0
    cdef int64_t highest = 0
    cdef bint any_kept = False
    cdef bint done
    # One piece of memory for all, as large as what may be copied.
    if not reserve(made, walk.view.len):
        raise MemoryError
    while walk.next(&record):
        if not marks[walk.index - 1]:
            continue
        highest = max(highest, walk.timestamp) if any_kept else walk.timestamp
        any_kept = True
        if moves:
            done = put_moved(made, &record, difference(walk.timestamp, base))
        else:
            done = put_bytes(made, record.start, record.end - record.start)
        if not done:
            raise MemoryError
    return highest if any_kept else -1


cdef bint put_moved(Growing* made, const RawRecord* record, int64_t delta) noexcept:
    """The record with another timestamp delta, and so perhaps another size."""
    cdef Py_ssize_t rest = record.end - record.behind_times
    cdef Py_ssize_t body = 1 + varint_size(zigzag(delta)) + rest
    cdef uint8_t* start
    cdef uint8_t* at
    if not reserve(made, body + MOVED_BYTES_MAX):
        return False
    start = made.data + made.size
    at = put_varint(start, zigzag(body))
    at[0] = (record.times - 1)[0]  # attributes
    at = put_varint(at + 1, zigzag(delta))
    memcpy(at, record.behind_times, <size_t>rest)
    made.size += (at - start) + rest
    return True


cdef int64_t difference(int64_t timestamp, int64_t base) noexcept:
    cdef int64_t found
    if __builtin_sub_overflow(timestamp, base, &found):
        return INT64_MIN if base > 0 else INT64_MAX
    return found
