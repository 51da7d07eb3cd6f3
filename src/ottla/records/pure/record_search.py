"""Searches the payload of a batch for records."""

from ottla.buffers import Buffer
from ottla.records.header import NO_TIMESTAMP
from ottla.records.payload import decode_records


def find_timestamp(
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    timestamp: int,
    first_offset: int,
) -> tuple[int, int] | None:
    """Return (timestamp, offset) of the first record from `first_offset` on that is not older than
    `timestamp`; None if there is none. Later records are not read."""
    for record in decode_records(bytes(payload), count, base_offset, base_timestamp, append_time):
        if record.timestamp >= timestamp and record.offset >= first_offset:
            return record.timestamp, record.offset
    return None


def find_faults(
    payload: Buffer,
    count: int,
    base_timestamp: int,
    needs_keys: bool,
    earliest: int,
    latest: int,
    listed_max: int,
) -> tuple[int, list[tuple[int, int | None]], bool]:
    """Return how many records lack a key or have a timestamp out of range; the first of them as
    (index, timestamp), with None if the key is missing; and whether any timestamp is out of
    range."""
    faults = 0
    listed: list[tuple[int, int | None]] = []
    any_out_of_time = False
    records = decode_records(bytes(payload), count, 0, base_timestamp)
    for index, (_, timestamp, key, _, _) in enumerate(records):
        is_keyless = needs_keys and key is None
        if not is_keyless and (timestamp == NO_TIMESTAMP or earliest <= timestamp <= latest):
            continue
        any_out_of_time |= not is_keyless
        faults += 1
        if len(listed) < listed_max:
            listed.append((index, None if is_keyless else timestamp))
    return faults, listed, any_out_of_time
