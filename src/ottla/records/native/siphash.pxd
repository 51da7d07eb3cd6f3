"""SipHash-2-4 with 128 bits: without its secret nobody can make two keys collide."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy


cdef struct Hash:
    uint64_t first
    uint64_t second


cdef struct _State:
    uint64_t v0
    uint64_t v1
    uint64_t v2
    uint64_t v3


cdef inline uint64_t _rotated(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef inline void _mix(_State* s) noexcept nogil:
    s.v0 += s.v1
    s.v2 += s.v3
    s.v1 = _rotated(s.v1, 13) ^ s.v0
    s.v3 = _rotated(s.v3, 16) ^ s.v2
    s.v0 = _rotated(s.v0, 32)
    s.v2 += s.v1
    s.v0 += s.v3
    s.v1 = _rotated(s.v1, 17) ^ s.v2
    s.v3 = _rotated(s.v3, 21) ^ s.v0
    s.v2 = _rotated(s.v2, 32)


cdef inline void _absorb(_State* s, uint64_t word) noexcept nogil:
    s.v3 ^= word
    _mix(s)
    _mix(s)
    s.v0 ^= word


cdef inline uint64_t _squeeze(_State* s) noexcept nogil:
    cdef int turn
    for turn in range(4):
        _mix(s)
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3


cdef inline Hash siphash(
    const uint8_t* data, Py_ssize_t size, uint64_t secret, uint64_t other_secret
) noexcept nogil:
    cdef _State s
    cdef Hash made
    cdef uint64_t word
    cdef uint64_t last = <uint64_t>size << 56
    s.v0 = secret ^ 0x736F6D6570736575ULL
    s.v1 = other_secret ^ 0x646F72616E646F6DULL ^ 0xEE
    s.v2 = secret ^ 0x6C7967656E657261ULL
    s.v3 = other_secret ^ 0x7465646279746573ULL
    while size >= 8:
        memcpy(&word, data, 8)
        _absorb(&s, word)
        data += 8
        size -= 8
    word = 0
    if size:
        memcpy(&word, data, <size_t>size)
    _absorb(&s, last | word)
    s.v2 ^= 0xEE
    made.first = _squeeze(&s)
    s.v1 ^= 0xDD
    made.second = _squeeze(&s)
    return made
