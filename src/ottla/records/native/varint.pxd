"""Varints: seven bits per byte, the lowest first; zigzag if there may be a sign."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    int __builtin_clzll(unsigned long long) nogil


cdef inline const uint8_t* read_varint(
    const uint8_t* at, const uint8_t* end, uint64_t* value
) noexcept nogil:
    """Return the position after the varint; NULL if it passes the end or exceeds 64 bits."""
    if at < end and at[0] < 0x80:
        value[0] = at[0]
        return at + 1
    if end - at > 1 and at[1] < 0x80:  # most sizes of records
        value[0] = <uint64_t>(at[0] & 0x7F) | <uint64_t>at[1] << 7
        return at + 2
    return read_long_varint(at, end, value)


cdef inline const uint8_t* read_long_varint(
    const uint8_t* at, const uint8_t* end, uint64_t* value
) noexcept nogil:
    cdef uint64_t raw = 0
    cdef uint64_t byte
    cdef int shift = 0
    while at < end:
        byte = at[0]
        at += 1
        if shift == 63 and byte > 1:
            return NULL
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = raw
            return at
        shift += 7
    return NULL


cdef inline uint8_t* put_varint(uint8_t* at, uint64_t value) noexcept nogil:
    while value > 0x7F:
        at[0] = <uint8_t>(value & 0x7F | 0x80)
        at += 1
        value >>= 7
    at[0] = <uint8_t>value
    return at + 1


cdef inline Py_ssize_t varint_size(uint64_t value) noexcept nogil:
    return (63 - __builtin_clzll(value | 1)) // 7 + 1


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int64_t unzigzag(uint64_t raw) noexcept nogil:
    return <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
