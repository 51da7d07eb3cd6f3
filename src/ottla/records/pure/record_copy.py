"""Copies some of a payload's records, byte for byte: they are not encoded again.

Records hold deltas to the base offset and the base timestamp, so they can be copied as they are
while both stay. With another base timestamp that one field of each is replaced.
"""

from ottla.buffers import Buffer
from ottla.records.payload import INT64_MAX, INT64_MIN, decode_records, read_varint, varint


def copy_records(
    payload: Buffer,
    count: int,
    mask: bytes,
    base_timestamp: int,
    append_time: int | None,
    new_base_timestamp: int | None = None,
) -> tuple[bytes, int]:
    """Return the records whose byte in `mask` is not 0, and the highest timestamp among them (-1
    for none).

    `append_time` is the timestamp of all of them, whatever they contain; with `new_base_timestamp`
    it is written into them. A difference that exceeds 64 bits is clamped.
    """
    check_mask(mask, count)
    data = bytes(payload)
    parts: list[bytes] = []
    timestamps: list[int] = []
    start = 0
    for index, record in enumerate(decode_records(data, count, 0, base_timestamp, append_time)):
        size, position = read_varint(data, start)
        end = position + (size >> 1)
        if mask[index]:
            timestamps.append(record.timestamp)
            if new_base_timestamp is None:
                parts.append(data[start:end])
            else:
                parts.append(_moved(data, position, end, record.timestamp - new_base_timestamp))
        start = end
    return b"".join(parts), max(timestamps, default=-1)


def renumber_records(payload: Buffer, count: int) -> bytes:
    """Return the records with offset deltas that count up from 0."""
    data = bytes(payload)
    parts: list[bytes] = []
    start = 0
    for index, _ in enumerate(decode_records(data, count, 0, 0, 0)):
        size, position = read_varint(data, start)
        end = position + (size >> 1)
        _, behind_times = read_varint(data, position + 1)
        _, behind = read_varint(data, behind_times)
        body = b"".join((data[position:behind_times], varint(index), data[behind:end]))
        parts += (varint(len(body)), body)
        start = end
    return b"".join(parts)


def check_mask(mask: bytes, count: int) -> None:
    if len(mask) != count:
        raise ValueError(f"a mask for {len(mask)} records does not fit {count}")


def _moved(data: bytes, position: int, end: int, difference: int) -> bytes:
    """Return the record whose attributes are at `position`, with `difference` as its timestamp
    delta."""
    _, behind = read_varint(data, position + 1)
    clamped = max(INT64_MIN, min(INT64_MAX, difference))
    body = b"".join((data[position : position + 1], varint(clamped), data[behind:end]))
    return varint(len(body)) + body
