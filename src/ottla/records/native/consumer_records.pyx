"""The compiled counterpart of `ottla.records.pure.consumer_records`."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_Append
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint8_t

from ottla.records.native.raw_record cimport RawRecord, Span, read_header
from ottla.records.native.walk cimport Walk

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
    """The values that all records of one call share."""

    cdef Walk walk
    cdef object topic, partition, timestamp_type, leader_epoch
    cdef object cls, key_of, value_of
    cdef object last_timestamp
    cdef int64_t last_time

    cdef list read(self, int64_t from_offset):
        cdef RawRecord raw
        cdef list records = []
        while self.walk.next(&raw):
            if self.walk.offset >= from_offset:
                PyList_Append(records, self.record(&raw))
        return records

    cdef object record(self, const RawRecord* raw):
        # Make all fields before the tuple: code of the application must not see an unfinished one.
        offset = self.walk.offset
        time = self.time_of(self.walk.timestamp)
        key = field_of(&raw.key, self.key_of)
        value = field_of(&raw.value, self.value_of)
        headers = self.headers_of(raw) if raw.header_count else EMPTY
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
            # Text, numbers and bytes refer to nothing, so there can be no cycle here: the garbage
            # collector need not scan millions of records again and again.
            PyObject_GC_UnTrack(<void*>made)
        return made

    cdef object time_of(self, int64_t timestamp):
        """Return the timestamp; adjacent records often share one object."""
        if timestamp != self.last_time or self.last_timestamp is None:
            self.last_time = timestamp
            self.last_timestamp = timestamp
        return self.last_timestamp

    cdef tuple headers_of(self, const RawRecord* raw):
        """Checks again, because a deserializer of the key may have changed the payload."""
        cdef const uint8_t* at = raw.headers
        cdef Span name, value
        cdef int64_t index
        cdef tuple headers = PyTuple_New(raw.header_count)
        for index in range(raw.header_count):
            at = read_header(at, raw.end, &name, &value)
            if at == NULL:
                raise self.walk.damage()
            text = PyUnicode_DecodeUTF8(<const char*>name.data, name.size, "replace")
            put(headers, index, (text, field_of(&value, None)))
        return headers


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
    """Return the records from `from_offset` on, each a `cls` of topic, partition, offset,
    timestamp, timestamp type, key, value, headers and leader epoch.

    `append_time` replaces all timestamps. `key_of` and `value_of` deserialize bytes; null stays
    None.
    """
    cdef Reader reader
    if not issubclass(cls, tuple):
        raise TypeError(f"{cls.__name__} is no kind of tuple")
    reader = Reader()
    reader.walk = Walk(payload, count, base_offset, base_timestamp, append_time)
    reader.topic = topic
    reader.partition = partition
    reader.timestamp_type = timestamp_type
    reader.leader_epoch = leader_epoch
    reader.cls = cls
    reader.key_of = key_of
    reader.value_of = value_of
    return reader.read(from_offset)


cdef inline object field_of(const Span* span, convert):
    if span.size < 0:
        return None
    data = PyBytes_FromStringAndSize(<const char*>span.data, span.size)
    return data if convert is None else convert(data)


cdef inline void put(made, Py_ssize_t index, value) noexcept:
    Py_INCREF(value)
    PyTuple_SET_ITEM(made, index, value)
