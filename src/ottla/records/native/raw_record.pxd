"""A record in a payload: where its parts are. All its content is checked.

`ottla.records.payload` describes the format and accepts the same bytes.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from ottla.records.native.varint cimport read_varint, unzigzag

cdef extern from *:
    bint __builtin_add_overflow(int64_t, int64_t, int64_t*) nogil

cdef enum:
    RECORD_BYTES_MIN = 7
    OFFSET_DELTA_MAX = 0x7FFFFFFF


cdef struct Span:
    const uint8_t* data
    Py_ssize_t size  # -1: null


cdef struct RawRecord:
    const uint8_t* start
    const uint8_t* end
    const uint8_t* times  # the position of the timestamp delta
    const uint8_t* behind_times
    int64_t timestamp_delta
    int64_t offset_delta
    Span key
    Span value
    const uint8_t* headers  # the position after their count
    int64_t header_count


cdef inline bint fits(int64_t count, Py_ssize_t size, int64_t base_offset) noexcept nogil:
    """Check the count before the first record: no memory is taken for more than can be there."""
    cdef int64_t end
    if count < 0 or count > size // RECORD_BYTES_MIN:
        return False
    return not __builtin_add_overflow(base_offset, OFFSET_DELTA_MAX, &end)


cdef inline const uint8_t* read_span(
    const uint8_t* at, const uint8_t* end, Span* span
) noexcept nogil:
    """Read a length and as many bytes; a negative length means null."""
    cdef uint64_t raw
    at = read_varint(at, end, &raw)
    if at == NULL:
        return NULL
    if raw & 1:
        span.data = NULL
        span.size = -1
        return at
    if (raw >> 1) > <uint64_t>(end - at):
        return NULL
    span.data = at
    span.size = <Py_ssize_t>(raw >> 1)
    return at + span.size


cdef inline const uint8_t* read_header(
    const uint8_t* at, const uint8_t* end, Span* name, Span* value
) noexcept nogil:
    at = read_span(at, end, name)
    if at == NULL or name.size < 0:
        return NULL
    return read_span(at, end, value)


cdef inline const uint8_t* skip_headers(
    const uint8_t* at, const uint8_t* end, int64_t count
) noexcept nogil:
    cdef Span name, value
    if count > end - at:
        return NULL
    while count > 0:
        at = read_header(at, end, &name, &value)
        if at == NULL:
            return NULL
        count -= 1
    return at


cdef inline const uint8_t* read_record(
    const uint8_t* at, const uint8_t* end, RawRecord* record
) noexcept nogil:
    """Return the position after the record at `at`; NULL if it is damaged."""
    cdef uint64_t raw
    record.start = at
    at = read_varint(at, end, &raw)
    if at == NULL or raw & 1 or (raw >> 1) > <uint64_t>(end - at):
        return NULL
    end = at + (raw >> 1)
    record.end = end
    if at == end:
        return NULL
    record.times = at + 1  # after the attributes, of which none are defined
    at = read_varint(record.times, end, &raw)
    if at == NULL:
        return NULL
    record.behind_times = at
    record.timestamp_delta = unzigzag(raw)
    at = read_varint(at, end, &raw)
    if at == NULL or raw & 1 or (raw >> 1) > <uint64_t>OFFSET_DELTA_MAX:
        return NULL
    record.offset_delta = <int64_t>(raw >> 1)
    at = read_span(at, end, &record.key)
    if at == NULL:
        return NULL
    at = read_span(at, end, &record.value)
    if at == NULL:
        return NULL
    at = read_varint(at, end, &raw)
    if at == NULL or raw & 1:
        return NULL
    record.headers = at
    record.header_count = <int64_t>(raw >> 1)
    if raw:
        at = skip_headers(at, end, record.header_count)
    return end if at == end else NULL


cdef inline bint add_delta(int64_t base, int64_t delta, int64_t* total) noexcept nogil:
    """False if the sum takes more than 64 bits."""
    return not __builtin_add_overflow(base, delta, total)
