"""The compiled counterpart of `ottla.records.pure.key_offsets`, with another hash."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int64_t, uint8_t, uint64_t

from ottla.records.native.raw_record cimport RawRecord, Span
from ottla.records.native.siphash cimport Hash, siphash
from ottla.records.native.walk cimport Walk

from ottla.records.kept_records import KeptRecords
from ottla.records.pure.key_offsets import dimensions


cdef struct Entry:
    uint64_t first
    uint64_t second
    int64_t following  # the offset + 1, so that 0 means free


cdef class KeyOffsets:
    """Entries are never removed. `end_offset`: all records before it have been added."""

    cdef Entry* table
    cdef readonly int64_t slots
    cdef readonly int64_t entries
    cdef public int64_t end_offset
    cdef int64_t entries_max
    cdef uint64_t secret, other_secret

    def __cinit__(self, memory_bytes, load_factor):
        self.slots, self.entries_max = dimensions(memory_bytes, load_factor)
        # Zeroed memory from the OS: pages without a key cost nothing.
        self.table = <Entry*>PyMem_RawCalloc(<size_t>self.slots, sizeof(Entry))
        if self.table == NULL:
            raise MemoryError
        # The secret of the interpreter's own hashes, which every process chooses anew.
        self.secret = <uint64_t><int64_t>hash(b"the first secret of the key offsets")
        self.other_secret = <uint64_t><int64_t>hash(b"the other secret of the key offsets")

    def __dealloc__(self):
        PyMem_RawFree(self.table)

    @property
    def utilization(self):
        return self.entries / <double>self.slots

    def put(self, payload, int64_t count, int64_t base_offset):
        """Add those of `count` records that have a key, from `end_offset` on; return the offset of
        the first one for which there was no room, if any."""
        cdef Walk records = Walk(payload, count, base_offset, 0, 0)
        cdef RawRecord record
        cdef Hash key
        cdef Entry* entry
        cdef int64_t offset
        while records.next(&record):
            offset = records.offset
            if record.key.size < 0 or offset < self.end_offset:
                continue
            key = self.hashed(&record.key)
            entry = self.find(key)
            if not entry.following:
                if self.entries >= self.entries_max:
                    return offset
                entry.first = key.first
                entry.second = key.second
                self.entries += 1
            entry.following = offset + 1
        return None

    def keep(self, payload, int64_t count, int64_t base_offset, bint tombstones_go):
        """Return which records are kept: the last of their key, and all from `end_offset` on."""
        cdef Walk records = Walk(payload, count, base_offset, 0, 0)
        cdef RawRecord record
        cdef bint has_tombstones = False
        cdef int64_t kept = 0
        cdef int64_t without_key = 0
        cdef int64_t offset
        cdef bytes mask = PyBytes_FromStringAndSize(NULL, count)
        cdef char* marks = PyBytes_AS_STRING(mask)
        while records.next(&record):
            offset = records.offset
            marks[records.index - 1] = 0
            if offset < self.end_offset:
                if record.key.size < 0:
                    without_key += 1
                    continue
                if tombstones_go and record.value.size < 0:
                    continue
                if offset < self.find(self.hashed(&record.key)).following - 1:
                    continue
            marks[records.index - 1] = 1
            kept += 1
            has_tombstones = has_tombstones or record.value.size < 0
        return KeptRecords(mask, kept, bool(has_tombstones), without_key)

    def last_offset(self, bytes key not None):
        """Return the last offset of a key; -1 if it is not known."""
        cdef Span span
        span.data = <const uint8_t*>PyBytes_AS_STRING(key)
        span.size = PyBytes_GET_SIZE(key)
        return self.find(self.hashed(&span)).following - 1

    cdef Hash hashed(self, const Span* key) noexcept:
        return siphash(key.data, key.size, self.secret, self.other_secret)

    cdef Entry* find(self, Hash key) noexcept:
        """Return the slot of the key; it is free if the key is not known."""
        cdef uint64_t slots = <uint64_t>self.slots
        cdef uint64_t slot = key.first % slots
        cdef Entry* entry = self.table + slot
        while entry.following and not (entry.first == key.first and entry.second == key.second):
            slot = (slot + 1 + key.second % (slots - 1)) % slots
            entry = self.table + slot
        return entry


def siphash_128(bytes data not None, uint64_t secret, uint64_t other_secret):
    """Return the hash of the table, to test it against the published values."""
    cdef Hash made = siphash(
        <const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), secret, other_secret
    )
    return made.first.to_bytes(8, "little") + made.second.to_bytes(8, "little")
