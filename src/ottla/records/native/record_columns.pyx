"""The compiled counterpart of `ottla.records.pure.record_columns`."""

from cpython.buffer cimport Py_buffer, PyBuffer_FillInfo
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport int32_t, int64_t, uint8_t

from ottla.records.native.bytes_column cimport (
    Column,
    begin,
    free_column,
    put_name,
    put_row,
    truncate,
)
from ottla.records.native.growing cimport Growing, put_bytes, release
from ottla.records.native.raw_record cimport RawRecord, Span, read_header
from ottla.records.native.walk cimport AT_END, AT_RECORD, Step, Walk

from ottla.records.column_buffers import COLUMN_BYTES_MAX as _COLUMN_BYTES_MAX, ColumnBuffers

cdef enum:
    # A smaller payload is done before another thread could make use of the lock.
    UNLOCKED_BYTES_MIN = 256 * 1024
    KEYS = 0
    VALUES = 1
    HEADER_KEYS = 2
    HEADER_VALUES = 3

cdef enum Outcome:
    DONE
    FULL
    DAMAGED
    NO_MEMORY

cdef int64_t COLUMN_BYTES_MAX = _COLUMN_BYTES_MAX
cdef int64_t ROWS_MAX = 1 << 31


cdef class Block:
    """A column's memory that was taken; it lives as long as a buffer view of it exists."""

    cdef uint8_t* data
    cdef Py_ssize_t size

    def __dealloc__(self):
        PyMem_RawFree(self.data)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    def __len__(self):
        return self.size


cdef Block block_of(Growing* memory):
    """Take the memory, without its unused capacity."""
    cdef Block block = Block.__new__(Block)
    cdef void* shrunk = PyMem_RawRealloc(memory.data, <size_t>max(memory.size, <Py_ssize_t>1))
    block.data = memory.data if shrunk == NULL else <uint8_t*>shrunk
    block.size = memory.size
    memory.data = NULL
    memory.size = memory.capacity = 0
    return block


cdef class RecordColumns:
    """Collects records of any number of batches as columns, until they are taken."""

    cdef Growing offsets, timestamps, header_offsets
    cdef Column[4] columns
    cdef bint with_headers
    cdef bint busy  # another thread is adding, without the lock
    cdef int64_t column_bytes_max
    cdef readonly int64_t count
    cdef readonly int64_t next_offset
    cdef readonly bint complete

    def __cinit__(self, bint headers=False, int64_t column_bytes_max=COLUMN_BYTES_MAX):
        self.with_headers = headers
        self.column_bytes_max = min(column_bytes_max, COLUMN_BYTES_MAX)
        self.next_offset = -1
        self.complete = True
        self.begin()

    def __dealloc__(self):
        self.free()

    @property
    def bytes(self):
        """The bytes of keys, values and headers so far."""
        cdef Py_ssize_t total = 0
        cdef int number
        for number in range(4):
            total += self.columns[number].data.size
        return total

    def add(
        self,
        payload,
        int64_t count,
        int64_t base_offset,
        int64_t base_timestamp,
        append_time,
        int64_t from_offset,
        int64_t limit,
    ):
        """Add at most `limit` of the records from `from_offset` on; return how many were added.

        Stops before a column would exceed what int32 offsets can address. To continue with the
        same payload, take the columns and add it again from `next_offset`. A damaged payload adds
        nothing.
        """
        cdef Walk walk
        self.refuse_if_busy()
        walk = Walk(payload, count, base_offset, base_timestamp, append_time)
        if limit <= 0:
            self.complete = count == 0
            return 0
        return self.add_all(walk, from_offset, limit)

    cdef object add_all(self, Walk walk, int64_t from_offset, int64_t limit):
        cdef int64_t rows = self.count
        cdef int64_t next_offset = self.next_offset
        cdef Py_ssize_t headers = self.columns[HEADER_KEYS].rows
        cdef int64_t rows_max = rows + min(limit, ROWS_MAX)
        cdef Outcome outcome
        # The payload must not change while it is read without the lock.
        if walk.view.readonly and walk.view.len >= UNLOCKED_BYTES_MIN:
            self.busy = True
            with nogil:
                outcome = self.add_rows(walk, from_offset, rows_max)
            self.busy = False
        else:
            outcome = self.add_rows(walk, from_offset, rows_max)
        if outcome == NO_MEMORY or outcome == DAMAGED:
            self.cut(rows, headers)
            self.next_offset = next_offset
            raise MemoryError if outcome == NO_MEMORY else walk.damage()
        self.complete = outcome == DONE
        return self.count - rows

    cdef Outcome add_rows(self, Walk walk, int64_t from_offset, int64_t rows_max) noexcept nogil:
        cdef RawRecord record
        cdef Step step
        cdef Outcome outcome
        while True:
            if self.count == rows_max and walk.index < walk.count:
                return FULL
            step = walk.step(&record)
            if step != AT_RECORD:
                return DONE if step == AT_END else DAMAGED
            if walk.offset < from_offset:
                continue
            outcome = self.add_row(walk.offset, walk.timestamp, &record)
            if outcome != DONE:
                return outcome
            self.next_offset = walk.offset + 1

    cdef Outcome add_row(
        self, int64_t offset, int64_t timestamp, const RawRecord* record
    ) noexcept nogil:
        cdef Py_ssize_t headers = self.columns[HEADER_KEYS].rows
        cdef int number
        self.count += 1  # so that `cut` removes this row, complete or not
        if not (
            put_bytes(&self.offsets, &offset, 8)
            and put_bytes(&self.timestamps, &timestamp, 8)
            and put_row(&self.columns[KEYS], &record.key)
            and put_row(&self.columns[VALUES], &record.value)
            and (not self.with_headers or self.add_headers(record))
        ):
            return NO_MEMORY
        for number in range(4):
            if self.columns[number].data.size > self.column_bytes_max:
                self.cut(self.count - 1, headers)
                return FULL
        return DONE

    cdef bint add_headers(self, const RawRecord* record) noexcept nogil:
        cdef const uint8_t* at = record.headers
        cdef Span name, value
        cdef int64_t index
        cdef int32_t total
        for index in range(record.header_count):
            at = read_header(at, record.end, &name, &value)
            if at == NULL:
                return False
            if not (
                put_name(&self.columns[HEADER_KEYS], &name)
                and put_row(&self.columns[HEADER_VALUES], &value)
            ):
                return False
        total = <int32_t>self.columns[HEADER_KEYS].rows
        return put_bytes(&self.header_offsets, &total, 4)

    cdef void cut(self, int64_t rows, Py_ssize_t headers) noexcept nogil:
        """Truncate to this many rows and headers."""
        self.count = rows
        self.offsets.size = min(self.offsets.size, 8 * rows)
        self.timestamps.size = min(self.timestamps.size, 8 * rows)
        truncate(&self.columns[KEYS], rows)
        truncate(&self.columns[VALUES], rows)
        truncate(&self.columns[HEADER_KEYS], headers)
        truncate(&self.columns[HEADER_VALUES], headers)
        self.header_offsets.size = min(self.header_offsets.size, 4 * (rows + 1))

    def take(self):
        """Return the columns so far; the next row begins new ones."""
        cdef Column* keys = &self.columns[KEYS]
        cdef Column* values = &self.columns[VALUES]
        self.refuse_if_busy()
        taken = ColumnBuffers(
            self.count,
            block_of(&self.offsets),
            block_of(&self.timestamps),
            block_of(&keys.offsets),
            block_of(&keys.data),
            block_of(&keys.validity) if keys.nulls else None,
            block_of(&values.offsets),
            block_of(&values.data),
            block_of(&values.validity) if values.nulls else None,
            *(self.taken_headers() if self.with_headers else ()),
        )
        self.free()
        self.begin()
        return taken

    cdef tuple taken_headers(self):
        cdef Column* names = &self.columns[HEADER_KEYS]
        cdef Column* values = &self.columns[HEADER_VALUES]
        return (
            block_of(&self.header_offsets),
            block_of(&names.offsets),
            block_of(&names.data),
            block_of(&values.offsets),
            block_of(&values.data),
            block_of(&values.validity) if values.nulls else None,
        )

    cdef int begin(self) except -1:
        cdef int32_t zero = 0
        cdef int number
        self.count = 0
        for number in range(4):
            if not begin(&self.columns[number]):
                raise MemoryError
        if not put_bytes(&self.header_offsets, &zero, 4):
            raise MemoryError
        return 0

    cdef void free(self) noexcept:
        cdef int number
        release(&self.offsets)
        release(&self.timestamps)
        release(&self.header_offsets)
        for number in range(4):
            free_column(&self.columns[number])

    cdef int refuse_if_busy(self) except -1:
        if self.busy:
            raise RuntimeError("another thread is adding to these columns")
        return 0
