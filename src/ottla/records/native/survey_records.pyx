"""The compiled counterpart of `ottla.records.pure.survey_records`."""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t

from ottla.records.native.raw_record cimport RawRecord, add_delta, read_record
from ottla.records.native.walk cimport Walk

from ottla.records.survey import Survey

cdef enum:
    NO_TIMESTAMP = -1
    LOCKED_BYTES_MAX = 1 << 16  # more than this is read without the interpreter's lock

cdef struct Findings:
    int64_t earliest
    int64_t latest
    bint is_consecutive
    bint has_keys

cdef object new = tuple.__new__


def survey_records(payload, int64_t count, int64_t base_timestamp):
    """Survey the records; each is read and must be complete."""
    cdef Walk walk = Walk(payload, count, 0, base_timestamp, None)
    cdef Findings found
    cdef bint is_sound
    if walk.view.len <= LOCKED_BYTES_MAX:
        is_sound = survey(walk, &found)
    else:
        with nogil:
            is_sound = survey(walk, &found)
    if not is_sound:
        raise walk.damage()
    return new(Survey, (found.earliest, found.latest, found.is_consecutive, found.has_keys))


cdef bint survey(Walk walk, Findings* found) noexcept nogil:
    """False if there is damage. It uses local variables only: a broker does this to every batch."""
    cdef RawRecord record
    cdef const uint8_t* at = walk.at
    cdef const uint8_t* behind
    cdef const uint8_t* end = walk.end
    cdef int64_t index
    cdef int64_t timestamp
    cdef int64_t earliest = INT64_MAX
    cdef int64_t latest = NO_TIMESTAMP
    cdef int64_t wrong_offsets = 0
    cdef bint has_keys = True
    for index in range(walk.count):
        behind = read_record(at, end, &record)
        if behind == NULL or not add_delta(walk.base_timestamp, record.timestamp_delta, &timestamp):
            walk.at = at
            walk.index = index
            return False
        at = behind
        latest = max(latest, timestamp)
        if timestamp < earliest and timestamp != NO_TIMESTAMP:
            earliest = timestamp
        wrong_offsets |= record.offset_delta ^ index
        has_keys &= record.key.size >= 0
    walk.at = at
    walk.index = walk.count
    found.earliest = earliest
    found.latest = latest
    found.is_consecutive = wrong_offsets == 0
    found.has_keys = has_keys
    return at == end
