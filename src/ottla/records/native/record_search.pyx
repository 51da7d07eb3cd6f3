"""The compiled counterpart of `ottla.records.pure.record_search`."""

from libc.stdint cimport int64_t

from ottla.records.native.growing cimport Growing, put_bytes, release
from ottla.records.native.raw_record cimport RawRecord
from ottla.records.native.walk cimport AT_DAMAGE, AT_RECORD, Step, Walk

cdef enum:
    NO_TIMESTAMP = -1

cdef struct Fault:
    int64_t index
    int64_t timestamp
    bint is_keyless


def find_timestamp(
    payload,
    int64_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    append_time,
    int64_t timestamp,
    int64_t first_offset,
):
    """Return (timestamp, offset) of the first record from `first_offset` on that is not older than
    `timestamp`; None if there is none. Later records are not read."""
    cdef Walk walk = Walk(payload, count, base_offset, base_timestamp, append_time)
    cdef RawRecord record
    cdef Step step
    with nogil:
        step = walk.step(&record)
        while step == AT_RECORD and (walk.timestamp < timestamp or walk.offset < first_offset):
            step = walk.step(&record)
    if step == AT_DAMAGE:
        raise walk.damage()
    return (walk.timestamp, walk.offset) if step == AT_RECORD else None


def find_faults(
    payload,
    int64_t count,
    int64_t base_timestamp,
    bint needs_keys,
    int64_t earliest,
    int64_t latest,
    Py_ssize_t listed_max,
):
    """Return how many records lack a key or have a timestamp out of range; the first of them as
    (index, timestamp), with None if the key is missing; and whether any timestamp is out of
    range."""
    cdef Walk walk = Walk(payload, count, 0, base_timestamp, None)
    cdef RawRecord record
    cdef Step step
    cdef Fault fault
    cdef Fault* listed
    cdef Growing found
    cdef int64_t faults = 0
    cdef bint any_out_of_time = False
    cdef bint has_memory = True
    found.data = NULL
    found.size = found.capacity = 0
    try:
        with nogil:
            step = walk.step(&record)
            while step == AT_RECORD and has_memory:
                fault.is_keyless = needs_keys and record.key.size < 0
                if fault.is_keyless or (
                    walk.timestamp != NO_TIMESTAMP
                    and not earliest <= walk.timestamp <= latest
                ):
                    any_out_of_time |= not fault.is_keyless
                    if faults < listed_max:
                        fault.index = walk.index - 1
                        fault.timestamp = walk.timestamp
                        has_memory = put_bytes(&found, &fault, sizeof(Fault))
                    faults += 1
                step = walk.step(&record)
        if not has_memory:
            raise MemoryError
        if step == AT_DAMAGE:
            raise walk.damage()
        listed = <Fault*>found.data
        return (
            faults,
            [
                (listed[at].index, None if listed[at].is_keyless else listed[at].timestamp)
                for at in range(min(faults, listed_max))
            ],
            any_out_of_time,
        )
    finally:
        release(&found)
