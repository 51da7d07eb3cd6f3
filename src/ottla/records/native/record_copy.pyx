"""The compiled counterpart of `ottla.records.pure.record_copy`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from ottla.records.native.growing cimport Growing, put_bytes, release, reserve
from ottla.records.native.raw_record cimport RawRecord
from ottla.records.native.varint cimport put_varint, read_varint, varint_size, zigzag
from ottla.records.native.walk cimport AT_END, AT_RECORD, Step, Walk

from ottla.records.pure.record_copy import check_mask

cdef extern from *:
    bint __builtin_sub_overflow(int64_t, int64_t, int64_t*) nogil

cdef enum:
    MOVED_BYTES_MAX = 2 * 10  # how much longer a moved record may be: its size and its timestamp


def copy_records(
    payload,
    int64_t count,
    bytes mask not None,
    int64_t base_timestamp,
    append_time,
    new_base_timestamp=None,
):
    """Return the records whose byte in `mask` is not 0, and the highest timestamp among them (-1
    for none).

    `append_time` is the timestamp of all of them, whatever they contain; with `new_base_timestamp`
    it is written into them. A difference that exceeds 64 bits is clamped.
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
    # One allocation for all, as large as what may be copied.
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
    """Write the record with another timestamp delta, and so perhaps another size."""
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


def renumber_records(payload, int64_t count):
    """Return the records with offset deltas that count up from 0."""
    cdef Walk walk = Walk(payload, count, 0, 0, 0)
    cdef bytes made
    cdef uint8_t* at
    cdef Py_ssize_t size
    with nogil:
        size = renumbered(walk, NULL)
    if size < 0:
        raise walk.damage()
    walk = Walk(payload, count, 0, 0, 0)
    made = PyBytes_FromStringAndSize(NULL, size)
    at = <uint8_t*>PyBytes_AS_STRING(made)
    with nogil:
        renumbered(walk, at)
    return made


cdef Py_ssize_t renumbered(Walk walk, uint8_t* at) noexcept nogil:
    """Return the size of the records, which are written unless `at` is NULL; -1 for damage."""
    cdef RawRecord record
    cdef Step step = walk.step(&record)
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t front, rest, body
    cdef const uint8_t* behind
    cdef uint64_t raw, number
    while step == AT_RECORD:
        behind = read_varint(record.behind_times, record.end, &raw)
        number = zigzag(walk.index - 1)
        front = record.behind_times - (record.times - 1)
        rest = record.end - behind
        body = front + varint_size(number) + rest
        total += varint_size(zigzag(body)) + body
        if at != NULL:
            at = put_varint(at, zigzag(body))
            memcpy(at, record.times - 1, <size_t>front)
            at = put_varint(at + front, number)
            memcpy(at, behind, <size_t>rest)
            at += rest
        step = walk.step(&record)
    return total if step == AT_END else -1
