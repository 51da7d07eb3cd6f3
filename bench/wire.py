"""Kafka's wire and batch formats, written from the protocol's documentation without Ottla's code.

The bench sends frames built beforehand, so that the client costs almost nothing; the tests of
faults and files use it to check Ottla's own codec and storage.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

import crc32c

API_VERSIONS, PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS = 18, 0, 1, 2, 3, 19
NO_ERROR, CORRUPT_MESSAGE, UNKNOWN_TOPIC, MESSAGE_TOO_LARGE = 0, 2, 3, 10
UNSUPPORTED_VERSION, STORAGE_ERROR, INVALID_RECORD = 35, 56, 87
_HEADER = struct.Struct(">hhih")
_BATCH = struct.Struct(">qiibIhiqqqhii")


def varint(value: int) -> bytes:
    """Encode with zig-zag, as inside a record."""
    return uvarint((value << 1) ^ (value >> 63))


def uvarint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def record(value: bytes | None, offset_delta: int = 0, key: bytes | None = None) -> bytes:
    body = b"\0" + varint(0) + varint(offset_delta) + _sized(key) + _sized(value) + varint(0)
    return varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def batch(
    values: Sequence[bytes | None],
    *,
    codec: int = 0,
    payload: bytes | None = None,
    magic: int = 2,
    count: int | None = None,
    last_offset_delta: int | None = None,
    timestamp_ms: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """Return a record batch; `payload` replaces the records (compressed, or wrong on purpose).

    `producer` is the id, the epoch and the first sequence of an idempotent producer.
    """
    if payload is None:
        payload = b"".join(record(value, index) for index, value in enumerate(values))
    stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    count = len(values) if count is None else count
    last = count - 1 if last_offset_delta is None else last_offset_delta
    head = _BATCH.pack(
        0, 49 + len(payload), -1, magic, 0, codec, last, stamp, stamp, *producer, count
    )
    return seal(bytearray(head + payload))


def seal(data: bytearray) -> bytes:
    """Put the right CRC into a batch that was changed."""
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(data)


def frame(api: int, version: int, body: bytes, *, correlation: int = 1, flexible: bool) -> bytes:
    client = b"bench"
    head = _HEADER.pack(api, version, correlation, len(client)) + client
    data = head + (b"\0" if flexible else b"") + body
    return struct.pack(">i", len(data)) + data


def compact_text(text: str) -> bytes:
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw


def api_versions_frame(correlation: int = 1) -> bytes:
    return frame(API_VERSIONS, 0, b"", correlation=correlation, flexible=False)


def metadata_frame(topics: Sequence[str] | None, correlation: int = 1) -> bytes:
    """Metadata v4, without creating missing topics."""
    if topics is None:
        body = struct.pack(">i", -1)
    else:
        names = (struct.pack(">h", len(name)) + name.encode() for name in topics)
        body = struct.pack(">i", len(topics)) + b"".join(names)
    return frame(METADATA, 4, body + b"\0", correlation=correlation, flexible=False)


def produce_frame(
    topic: str, partition: int, records: bytes | None, *, acks: int = -1, correlation: int = 1
) -> bytes:
    """Produce v12 to one partition."""
    data = uvarint(0) if records is None else uvarint(len(records) + 1) + records
    body = b"".join(
        (
            uvarint(0),  # no transactional id
            struct.pack(">hi", acks, 30_000),
            *(uvarint(2), compact_text(topic)),
            *(uvarint(2), struct.pack(">i", partition), data, b"\0"),
            b"\0\0",
        )
    )
    return frame(PRODUCE, 12, body, correlation=correlation, flexible=True)


def fetch_frame(
    topic: str,
    partition: int,
    offset: int,
    *,
    max_bytes: int = 1 << 20,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    correlation: int = 1,
) -> bytes:
    """Fetch v12 of one partition, without a session."""
    body = b"".join(
        (
            struct.pack(">iiiibii", -1, max_wait_ms, min_bytes, max_bytes, 0, 0, -1),
            *(uvarint(2), compact_text(topic), uvarint(2)),
            struct.pack(">iiqiqi", partition, -1, offset, -1, -1, max_bytes),
            b"\0\0",
            uvarint(1),  # no forgotten topics
            uvarint(1),  # rack ""
            b"\0",
        )
    )
    return frame(FETCH, 12, body, correlation=correlation, flexible=True)


class Produced(NamedTuple):
    error: int
    base_offset: int


class Fetched(NamedTuple):
    error: int
    high_watermark: int
    records: bytes


class Reader:
    """Reads a response field by field."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position

    def take(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.position)
        self.position += struct.calcsize(form)
        return int(value)

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def compact(self) -> bytes:
        size = self.uvarint() - 1
        start = self.position
        self.position += max(size, 0)
        return self.data[start : self.position]


def parse_produce(answer: bytes) -> Produced:
    """Parse the one partition of a Produce v12 response (without its size)."""
    reader = Reader(answer, 5)
    reader.uvarint()
    reader.compact()
    reader.uvarint()
    reader.take(">i")
    return Produced(reader.take(">h"), reader.take(">q"))


def parse_fetch(answer: bytes) -> Fetched:
    """Parse the one partition of a Fetch v12 response (without its size)."""
    reader = Reader(answer, 5 + 4 + 2 + 4)
    reader.uvarint()
    reader.compact()
    reader.uvarint()
    reader.take(">i")
    error, high_watermark = reader.take(">h"), reader.take(">q")
    reader.take(">q")
    reader.take(">q")
    for _ in range(reader.uvarint() - 1):  # aborted transactions
        reader.position += 17
    reader.take(">i")
    return Fetched(error, high_watermark, reader.compact())


class Peer:
    """A blocking connection that sends what it is given, right or wrong."""

    def __init__(self, port: int, timeout_s: float = 10.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """Return the next response without its size, or None if the broker hung up."""
        head = self._exactly(4)
        if head is None:
            return None
        return self._exactly(int.from_bytes(head, "big"))

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        answer = self.receive()
        if answer is None:
            raise ConnectionError("the broker closed the connection")
        return answer

    def _exactly(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except ConnectionError:
                return None
            if not part:
                return None
            data += part
        return bytes(data)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
