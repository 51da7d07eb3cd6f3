"""Encodes the user data in which the sticky assignors of all clients send previous assignments."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ottla.client.consumer.assignors.assignor import NO_GENERATION
from ottla.client.consumer.assignors.sticky_claims import Claim
from ottla.client.values import TopicPartition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def write_previous(claim: Claim) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for one in claim.partitions:
        by_topic.setdefault(one.topic, []).append(one.partition)
    parts = [_INT32.pack(len(by_topic))]
    for topic, indexes in by_topic.items():
        name = topic.encode()
        parts += [
            _INT16.pack(len(name)),
            name,
            struct.pack(f">i{len(indexes)}i", len(indexes), *indexes),
        ]
    parts.append(_INT32.pack(claim.known_generation))
    return b"".join(parts)


def read_previous(data: bytes) -> Claim | None:
    """Decode a claim; None if the bytes are invalid. Very old clients send no generation."""
    try:
        partitions, position = _read_partitions(data)
    except (struct.error, ValueError):
        return None
    if position + _INT32.size > len(data):
        return Claim(tuple(partitions), None)
    return Claim(tuple(partitions), _INT32.unpack_from(data, position)[0])


def _read_partitions(data: bytes) -> tuple[list[TopicPartition], int]:
    found: list[TopicPartition] = []
    (topics,) = _INT32.unpack_from(data, 0)
    position = _INT32.size
    for _ in _counted(topics, data, position):
        (length,) = _INT16.unpack_from(data, position)
        position += _INT16.size
        topic = data[position : position + length].decode()
        position += length
        (count,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        for _ in _counted(count, data, position):
            found.append(TopicPartition(topic, _INT32.unpack_from(data, position)[0]))
            position += _INT32.size
    return found, position


def _counted(count: int, data: bytes, position: int) -> Iterator[int]:
    """Return range(count), after checking that `data` has at least one byte left for each."""
    if not 0 <= count <= len(data) - position:
        raise ValueError(f"{count} of {len(data) - position} bytes")
    return iter(range(count))


def write_generation(generation: int) -> bytes:
    return _INT32.pack(generation)


def read_generation(data: bytes) -> int:
    return int(_INT32.unpack_from(data)[0]) if len(data) >= _INT32.size else NO_GENERATION
