"""The smallest parts of the wire format: variable-length integers."""

from __future__ import annotations

from ottla.buffers import Buffer
from ottla.protocol.errors import MalformedMessage

# No length, count or tag may be larger; Kafka holds them in a signed 32-bit integer.
UVARINT_MAX = 0x7FFF_FFFF

# The most tags of one struct. Real ones have ten at most; skipping millions would take seconds.
TAGS_MAX = 100

_SMALL = tuple(
    bytes((number,)) if number < 0x80 else bytes((number & 0x7F | 0x80, number >> 7))
    for number in range(1024)
)


def uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the unsigned varint at `position`, and the position after it; raises `IndexError` at
    the end."""
    byte = buffer[position]
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        position += 1
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        shift += 7
        if value > UVARINT_MAX or shift > 35:
            raise MalformedMessage(f"an unsigned varint is larger than {UVARINT_MAX}")
    return value, position + 1


def write_uvarint(value: int) -> bytes:
    if 0 <= value < 1024:
        return _SMALL[value]
    if not 0 <= value <= UVARINT_MAX:
        raise ValueError(f"{value} does not fit an unsigned varint (0 to {UVARINT_MAX})")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tags(buffer: Buffer, position: int) -> int:
    """Return the position after a section of unknown tagged fields."""
    count, position = uvarint(buffer, position)
    if count > TAGS_MAX:
        raise MalformedMessage(f"{count} tagged fields (at most {TAGS_MAX})")
    size = len(buffer)
    for _ in range(count):
        _, position = uvarint(buffer, position)
        length, position = uvarint(buffer, position)
        position += length
        if position > size:
            raise MalformedMessage("the message ends inside a tagged field")
    return position
