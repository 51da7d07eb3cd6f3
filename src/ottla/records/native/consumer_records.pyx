"""The compiled twin of `ottla.records.pure.consumer_records`."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer, Py_buffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_Append
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint8_t

from ottla.records.native.raw_record cimport (
    RawRecord,
    Span,
    add_delta,
    fits,
    read_header,
    read_record,
)

from ottla.records.payload import explain_damage

cdef extern from *:
    """
    /* What tuple.__new__ does once it knows the size. */
    static inline PyObject *ottla_new_tuple(PyObject *cls, Py_ssize_t size) {
        return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, size);
    }
    """
    object ottla_new_tuple(object cls, Py_ssize_t size)
    object PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)
    void PyObject_GC_UnTrack(void*)

cdef enum:
    FIELDS = 9


cdef class Reader:
    """What all records of one call have in common."""

    cdef Py_buffer view
    cdef object payload, topic, partition, timestamp_type, leader_epoch, append_time
    cdef object cls, key_of, value_of
    cdef int64_t count, base_offset, base_timestamp, from_offset
    cdef object last_timestamp
    cdef int64_t last_time

    def __cinit__(self, payload):
        PyObject_GetBuffer(payload, &self.view, PyBUF_SIMPLE)
        self.payload = payload

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    cdef list read(self):
        cdef const uint8_t* start = <const uint8_t*>self.view.buf
        cdef const uint8_t* end = start + self.view.len
        cdef const uint8_t* at = start
        cdef const uint8_t* behind
        cdef RawRecord raw
        cdef int64_t index
        cdef int64_t timestamp = 0
        cdef list records = []
        if not fits(self.count, self.view.len, self.base_offset):
            raise self.damage(0, 0)
        for index in range(self.count):
            behind = read_record(at, end, &raw)
            if behind == NULL or (
                self.append_time is None
                and not add_delta(self.base_timestamp, raw.timestamp_delta, &timestamp)
            ):
                raise self.damage(index, at - start)
            at = behind
            if self.base_offset + raw.offset_delta >= self.from_offset:
                PyList_Append(records, self.record(&raw, timestamp))
        if at != end:
            raise self.damage(self.count, at - start)
        return records

    cdef object record(self, const RawRecord* raw, int64_t timestamp):
        # All fields are there before the tuple is: code of others must not see an unfinished one.
        key = field_of(&raw.key, self.key_of)
        value = field_of(&raw.value, self.value_of)
        headers = self.headers_of(raw) if raw.header_count else EMPTY
        offset = self.base_offset + raw.offset_delta
        time = self.time_of(timestamp) if self.append_time is None else self.append_time
        made = ottla_new_tuple(self.cls, FIELDS)
        put(made, 0, self.topic)
        put(made, 1, self.partition)
        put(made, 2, offset)
        put(made, 3, time)
        put(made, 4, self.timestamp_type)
        put(made, 5, key)
        put(made, 6, value)
        put(made, 7, headers)
        put(made, 8, self.leader_epoch)
        if self.key_of is None and self.value_of is None:
            # Text, numbers and bytes refer to nothing, so there is no cycle to be found here: the
            # garbage collector need not look at millions of records again and again.
            PyObject_GC_UnTrack(<void*>made)
        return made

    cdef object time_of(self, int64_t timestamp):
        """Neighbours often have the same."""
        if timestamp != self.last_time or self.last_timestamp is None:
            self.last_time = timestamp
            self.last_timestamp = timestamp
        return self.last_timestamp

    cdef tuple headers_of(self, const RawRecord* raw):
        """Checked anew: a deserializer of the key may have written into the payload."""
        cdef const uint8_t* at = raw.headers
        cdef Span name, value
        cdef int64_t index
        cdef tuple headers = PyTuple_New(raw.header_count)
        for index in range(raw.header_count):
            at = read_header(at, raw.end, &name, &value)
            if at == NULL:
                raise self.damage(0, 0)
            text = PyUnicode_DecodeUTF8(<const char*>name.data, name.size, "replace")
            put(headers, index, (text, field_of(&value, None)))
        return headers

    cdef object damage(self, int64_t index, Py_ssize_t position):
        return explain_damage(
            bytes(self.payload),
            self.count,
            self.base_offset,
            self.base_timestamp,
            self.append_time,
            index,
            position,
        )


cdef object EMPTY = ()


def consumer_records(
    payload,
    int64_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    append_time,
    int64_t from_offset,
    str topic not None,
    int32_t partition,
    int32_t timestamp_type,
    int32_t leader_epoch,
    type cls not None,
    key_of=None,
    value_of=None,
):
    """The records from `from_offset` on, each a `cls` of topic, partition, offset, timestamp,
    timestamp type, key, value, headers and leader epoch.

    `append_time` replaces all timestamps. `key_of` and `value_of` make of bytes what the
    application wants; null stays None.
    """
    cdef Reader reader
    if not issubclass(cls, tuple):
        raise TypeError(f"{cls.__name__} is no kind of tuple")
    reader = Reader(payload)
    reader.count = count
    reader.base_offset = base_offset
    reader.base_timestamp = base_timestamp
    reader.append_time = append_time
    reader.from_offset = from_offset
    reader.topic = topic
    reader.partition = partition
    reader.timestamp_type = timestamp_type
    reader.leader_epoch = leader_epoch
    reader.cls = cls
    reader.key_of = key_of
    reader.value_of = value_of
    return reader.read()


cdef inline object field_of(const Span* span, convert):
    if span.size < 0:
        return None
    data = PyBytes_FromStringAndSize(<const char*>span.data, span.size)
    return data if convert is None else convert(data)


cdef inline void put(made, Py_ssize_t index, value) noexcept:
    Py_INCREF(value)
    PyTuple_SET_ITEM(made, index, value)
