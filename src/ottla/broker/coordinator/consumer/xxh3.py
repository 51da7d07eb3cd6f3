"""XXH3, the 64-bit hash by which Kafka summarizes the topics of a group; without seed.

It is used only so that our records contain the number that Kafka would write. It is computed once
per topic and change, so plain Python is fast enough.
"""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = (1 << 64) - 1
_P32_1: Final = 0x9E3779B1
_P32_2: Final = 0x85EBCA77
_P32_3: Final = 0xC2B2AE3D
_P64_1: Final = 0x9E3779B185EBCA87
_P64_2: Final = 0xC2B2AE3D27D4EB4F
_P64_3: Final = 0x165667B19E3779F9
_P64_4: Final = 0x85EBCA77C2B2AE63
_P64_5: Final = 0x27D4EB2F165667C5
_PMX_1: Final = 0x165667919E3779F9
_PMX_2: Final = 0x9FB21C651E98DF25

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_STRIPES_A_BLOCK: Final = (192 - _STRIPE) // 8


def xxh3_64(data: bytes) -> int:
    """Return the hash as a signed number, as in Java."""
    size = len(data)
    if size <= 16:
        value = _up_to_16(data, size)
    elif size <= 128:
        value = _up_to_128(data, size)
    elif size <= 240:
        value = _up_to_240(data, size)
    else:
        value = _long(data, size)
    return value - (1 << 64) if value >> 63 else value


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(one: int, other: int) -> int:
    product = one * other
    return (product & _MASK) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value = (value ^ value >> 37) * _PMX_1 & _MASK
    return value ^ value >> 32


def _xxh64_avalanche(value: int) -> int:
    value = (value ^ value >> 33) * _P64_2 & _MASK
    value = (value ^ value >> 29) * _P64_3 & _MASK
    return value ^ value >> 32


def _up_to_16(data: bytes, size: int) -> int:
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _fold(low, high)) & _MASK)
    if size >= 4:
        mixed = (
            (_u32(data, size - 4) + (_u32(data, 0) << 32)) ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        )
        mixed ^= (mixed << 49 | mixed >> 15) & _MASK ^ (mixed << 24 | mixed >> 40) & _MASK
        mixed = mixed * _PMX_2 & _MASK
        mixed = (mixed ^ (mixed >> 35) + size) * _PMX_2 & _MASK
        return mixed ^ mixed >> 28
    if size:
        word = data[0] << 16 | data[size >> 1] << 24 | data[size - 1] | size << 8
        return _xxh64_avalanche(word ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _xxh64_avalanche(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _mix16(data: bytes, at: int, secret_at: int) -> int:
    return _fold(
        _u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8)
    )


def _up_to_128(data: bytes, size: int) -> int:
    value = size * _P64_1
    for step in range((size - 1) // 32, -1, -1):
        value += _mix16(data, 16 * step, 32 * step)
        value += _mix16(data, size - 16 * (step + 1), 32 * step + 16)
    return _avalanche(value & _MASK)


def _up_to_240(data: bytes, size: int) -> int:
    value = size * _P64_1
    for step in range(8):
        value += _mix16(data, 16 * step, 16 * step)
    value = _avalanche(value & _MASK)
    for step in range(8, size // 16):
        value += _mix16(data, 16 * step, 16 * (step - 8) + 3)
    value += _mix16(data, size - 16, 136 - 17)
    return _avalanche(value & _MASK)


def _long(data: bytes, size: int) -> int:
    lanes = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    stripes = (size - 1) // _STRIPE
    for stripe in range(stripes):
        within = stripe % _STRIPES_A_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE, 8 * within)
        if within == _STRIPES_A_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, size - _STRIPE, 192 - _STRIPE - 7)
    value = size * _P64_1
    for pair in range(4):
        value += _fold(
            lanes[2 * pair] ^ _u64(_SECRET, 11 + 16 * pair),
            lanes[2 * pair + 1] ^ _u64(_SECRET, 19 + 16 * pair),
        )
    return _avalanche(value & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    words = struct.unpack_from("<8Q", data, at)
    keys = struct.unpack_from("<8Q", _SECRET, secret_at)
    for lane in range(8):
        word = words[lane]
        keyed = word ^ keys[lane]
        lanes[lane ^ 1] = (lanes[lane ^ 1] + word) & _MASK
        lanes[lane] = (lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _MASK


def _scramble(lanes: list[int]) -> None:
    keys = struct.unpack_from("<8Q", _SECRET, 192 - _STRIPE)
    for lane in range(8):
        value = lanes[lane]
        lanes[lane] = (value ^ value >> 47 ^ keys[lane]) * _P32_1 & _MASK
